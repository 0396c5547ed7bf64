"""How tables are fitted into a terminal, and that nothing else ever is."""

import io
import json

import pytest

from seamark.cli.show.rows import Column, write_rows
from tests.support.terminal import Screen

COLUMNS = (
    Column("GROUP", "group", may_shrink=True),
    Column("LOG-END-OFFSET", "log_end_offset", is_number=True),
    Column("HOST", "host"),
    Column("REMARK", "remark", is_sentence=True),
)
ROWS = [
    ("the-name-of-a-long-group", 120, None, "the topic is being deleted"),
    ("short", 7, None, ""),
]


def table(width, rows, monkeypatch, out=None):
    monkeypatch.setenv("COLUMNS", str(width))
    out = out or Screen()
    write_rows(COLUMNS, rows, "table", out)
    return out.getvalue().splitlines()


def test_what_fits_is_shown_in_full(monkeypatch):
    lines = table(100, ROWS, monkeypatch)
    assert lines[0].split() == ["GROUP", "LOG-END-OFFSET", "HOST", "REMARK"]
    assert lines[1].endswith("the topic is being deleted")


def test_columns_without_anything_go_first_and_nothing_is_shortened_for_them(monkeypatch):
    full = max(map(len, table(100, ROWS, monkeypatch)))
    lines = table(full - 6, ROWS, monkeypatch)
    assert lines[0].split() == ["GROUP", "LOG-END-OFFSET", "REMARK"]
    assert "…" not in "".join(lines)


def test_columns_that_may_go_do_so_before_titles_are_stacked(monkeypatch):
    columns = (Column("GROUP", "group", may_shrink=True), Column("LAG", "lag", is_number=True, may_go=True))
    rows = [("a-long-name", 12_345_678)]
    lines = {}
    for width in (40, 12):
        monkeypatch.setenv("COLUMNS", str(width))
        out = Screen()
        write_rows(columns, rows, "table", out)
        lines[width] = out.getvalue().splitlines()
    assert lines[40] == ["GROUP             LAG", "a-long-name  12345678"]
    assert lines[12] == ["GROUP", "a-long-name"]


def test_a_column_for_programs_is_in_no_table():
    columns = (Column("GROUP", "group"), Column("REMARK", "remark", in_table=False))
    for form, text in (("table", "GROUP\ng\n"), ("csv", "group,remark\ng,why\n")):
        out = io.StringIO()
        write_rows(columns, [("g", "why")], form, out)
        assert out.getvalue() == text


def test_names_shrink_in_their_middle_and_sentences_at_their_end(monkeypatch):
    lines = table(46, ROWS, monkeypatch)
    assert max(map(len, lines)) <= 46
    group, _, remark = lines[1].split(maxsplit=2)
    assert group.startswith("the-")
    assert group.endswith("group")
    assert "…" in group
    assert remark.startswith("the topic")
    assert remark.endswith("…")


def test_where_that_is_not_enough_titles_are_stacked_on_their_columns(monkeypatch):
    lines = table(24, ROWS, monkeypatch)
    assert [line.split() for line in lines[:3]] == [["LOG-"], ["END-"], ["GROUP", "OFFSET", "REMARK"]]
    assert max(map(len, lines)) <= 24
    ends = {line.rstrip().rindex(text) + len(text) for line, text in zip(lines[:2], ("LOG-", "END-"), strict=True)}
    assert ends == {lines[3].index("120") + 3}


@pytest.mark.parametrize("width", [10, 24, 46])
def test_a_file_or_a_pipe_gets_everything(width, monkeypatch):
    lines = table(width, ROWS, monkeypatch, io.StringIO())
    assert lines[0].split() == ["GROUP", "LOG-END-OFFSET", "HOST", "REMARK"]
    assert lines[1].startswith("the-name-of-a-long-group")


def test_rows_beyond_those_that_were_measured_keep_every_column(monkeypatch):
    many = [("group", 1, None, "")] * 600 + [("group", 1, "here", "late")]
    lines = table(30, many, monkeypatch)
    assert len([line for line in lines if "here" in line]) == 1


def test_a_table_without_rows_has_its_titles(monkeypatch):
    assert table(20, [], monkeypatch)[-1].split() == ["GROUP", "OFFSET", "HOST", "REMARK"]


@pytest.mark.parametrize("out", [io.StringIO, Screen])
def test_one_endless_name_does_not_pad_every_line(out, monkeypatch):
    endless = "begin" + "x" * 30_000 + "end"
    rows = [*ROWS, (endless, 1, endless, endless)]
    for order in (rows, rows[::-1], [*ROWS * 300, rows[-1]]):
        lines = table(100_000, order, monkeypatch, out())
        assert max(map(len, lines)) < 2000
        cut = next(line for line in lines if line.startswith("begin"))
        assert cut.split()[0].endswith("end")
        assert "…" in cut
    longest_topic = "t" * 249
    assert longest_topic in "".join(table(100_000, [(longest_topic, 1, None, "")], monkeypatch, out()))


def test_an_endless_name_is_whole_in_json(monkeypatch):
    out = io.StringIO()
    write_rows(COLUMNS, [("x" * 30_000, 1, None, "")], "json", out)
    assert json.loads(out.getvalue())[0]["group"] == "x" * 30_000

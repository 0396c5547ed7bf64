"""What strangers call their things is shown without doing anything, in text, JSON, CSV, errors and metrics."""

import csv
import io
import json
import pickle
import unicodedata
from types import SimpleNamespace

import pytest

from seamark.cli.show.rows import Column, write_rows
from seamark.client.fetch.metrics import FetchMetrics
from seamark.client.records import Offset
from seamark.errors import ConfigError, SeamarkError
from seamark.monitor.alerts import Alert, Trouble
from seamark.monitor.offset_file import offsets_csv, read_offsets
from seamark.parallel.core.stall import Stall
from seamark.parallel.core.work import RecordState
from seamark.parallel.observe.progress import progress_text
from seamark.parallel.observe.status import State, Status
from seamark.prometheus_text import Family, exposition
from seamark.readable_text import no_formula, readable, readable_json, readable_lines, without_apostrophe
from seamark.topic_partition import TopicPartition

# An escape sequence, a C1 control, bidi override and isolate, zero width, separators, half a pair, a language tag.
EVIL = "a\x1b[31m\x9b2J\u202eb\u2066\u200b\r\n\u2028\u2029\x7f\x00\ufeff\ud800\U000e0041"
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_every_character_that_hides_or_reorders_text_is_an_escape():
    assert readable(EVIL) == (r"a\x1b[31m\x9b2J\u202eb\u2066\u200b\r\n\u2028\u2029\x7f\x00\ufeff\ud800\U000e0041")
    for each in map(chr, range(0x30000)):
        if unicodedata.category(each) in UNSEEN:
            assert readable(each).isascii(), hex(ord(each))


def test_letters_of_every_script_stay_as_they_are():
    for text in ("zażółć", "注文", "🙂", "שלום", "orders-eu_1.v2", ""):
        assert readable(text) == text


def test_escaping_twice_changes_nothing():
    assert readable(readable(EVIL)) == readable(EVIL)


def test_text_of_several_lines_keeps_them():
    assert readable_lines("Traceback\n  x\x9b\n") == "Traceback\n  x\\x9b\n"


def test_json_shows_no_such_character_and_is_parsed_to_the_exact_text():
    for layout in ({}, {"indent": 1}, {"separators": (",", ":")}):
        text = readable_json({EVIL: [EVIL, "注文"]}, **layout)
        assert "注文" in text
        assert all(each.isprintable() or each == "\n" for each in text)
        assert json.loads(text) == {EVIL: [EVIL, "注文"]}


def test_rows_as_json_are_exact_and_safe_to_show():
    out = io.StringIO()
    write_rows([Column("GROUP", "group")], [[EVIL]], "json", out)
    assert json.loads(out.getvalue()) == [{"group": EVIL}]
    assert all(each.isprintable() or each == "\n" for each in out.getvalue())


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''@x"])
def test_a_csv_cell_is_never_a_formula(name):
    out = io.StringIO()
    write_rows([Column("GROUP", "group"), Column("LAG", "lag")], [[name, -1]], "csv", out)
    [_, [cell, number]] = csv.reader(io.StringIO(out.getvalue()))
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert number == "-1"
    assert without_apostrophe(no_formula(name)) == name


def test_exported_offsets_are_read_back_exactly_whatever_the_group_is_called(tmp_path):
    names = ["=cmd()", "'=cmd()", "'quoted", "../../etc/x", "a/b", 'say "hi", twice', "two\nlines", "\u202eevil"]
    text = offsets_csv({name: {TopicPartition("-topic", 0): Offset(5)} for name in names})
    assert not any(row[0].startswith(("=", "+", "-", "@")) for row in csv.reader(io.StringIO(text)))
    (tmp_path / "offsets.csv").write_text(text, newline="")
    assert read_offsets(tmp_path / "offsets.csv") == {name: {TopicPartition("-topic", 0): 5} for name in names}
    assert [each.name for each in tmp_path.iterdir()] == ["offsets.csv"]


def test_an_error_is_one_line_and_its_fields_have_the_exact_value():
    error = ConfigError(EVIL, EVIL, EVIL)
    assert str(error).isprintable()
    assert error.option == EVIL
    assert str(SeamarkError(EVIL)) == readable(EVIL)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_label_of_a_metric_has_the_formats_escapes_and_no_control_character():
    family = Family("lag", "gauge", "Lag.")
    family.add(1, group='a"b\\c\nd\x9b\u202e\ud800')
    line = family.text().splitlines()[-1]
    assert line == r'lag{group="a\"b\\c\nd\\x9b\\u202e\\ud800"} 1'


def test_what_a_program_shows_of_its_groups_is_one_line():
    held = Stall(TopicPartition(EVIL, 0), 1, EVIL, 2.0, 1, RecordState.RUNNING, 3, EVIL)
    assert str(held).isprintable()
    assert progress_text(Status(State.RUNNING, EVIL), 1.0).isprintable()
    trouble = Trouble("stalled", (f"{EVIL} is held",), 5, None)
    assert Alert("firing", EVIL, EVIL, trouble, 0, 0).text.isprintable()


def test_a_topics_name_cannot_end_the_label_it_stands_in():
    topic = TopicPartition('t"} 1\nforged{x="', 0)
    partition = SimpleNamespace(partition=topic, high_watermark=5, log_start=0, position=SimpleNamespace(offset=2))
    named = FetchMetrics(0, read_committed=False).snapshot([partition], 0, 1000)
    text = exposition(named, {}, {})
    assert "\nforged" not in text
    assert r'seamark_consumer_records_lag{topic="t\"} 1\nforged{x=\"",partition="0"} 3' in text

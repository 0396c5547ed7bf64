"""What the quickstart shows while it runs and at its end: it fits 80 columns, and is plain without a terminal."""

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from seamark.quickstart.outcome import Found, GroupOutcome, Outcome, write_outcome
from seamark.quickstart.screen import Bars, Lines, Quiet, screen_for
from tests.support.terminal import Screen

LONG = "a sentence that says at some length what came of the step, because it is longer than a line of eighty columns"


def outcome(prefix="", **changed):
    fields = {
        "cluster": "127.0.0.1:9092",
        "topic": f"{prefix}orders",
        "groups": (
            GroupOutcome(f"{prefix}billing", 20_000, 0, 20_000, 0, 0, 0, ()),
            GroupOutcome(f"{prefix}reports", 20_000, 1_000, 20_000, 0, 0, 0, ("moved from outside", "rewind")),
        ),
        "found": tuple(Found("rewind", f"{prefix}reports", "orders", index, LONG) for index in range(4)),
        "report": Path("/somewhere/report.html"),
        "plan": Path("/somewhere/rewind.json"),
        "seconds": 61.2,
        "left_out": {},
    }
    return Outcome(**fields | changed)


def test_lines_say_when_a_step_begins_and_how_it_ended():
    out = io.StringIO()
    screen = Lines(out, 80)
    with screen.step("billing", "processing", 100) as step:
        step.reach(50)
        step.result = LONG
    screen.left_out("spark", "no Java")
    first, *ended, last = out.getvalue().splitlines()
    assert first == "billing   processing (100) ..."
    assert "".join(ended).startswith("billing   a sentence that says")
    assert ended[-1].endswith("s)")
    assert last == "spark     skipped: no Java"
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_bars_fit_a_terminal_of_eighty_columns_and_leave_one_line_per_step():
    out = Screen()
    screen = Bars(Console(file=out, width=80, force_terminal=True, color_system=None, legacy_windows=False))
    with screen.step("shipping", "working around a bad order", 20_000) as step:
        step.reach(19_000)
        step.result = LONG
    shown = out.getvalue()
    assert "19000/20000" in shown
    left = shown.rpartition("\x1b[2K")[2].splitlines()
    assert left[0].startswith("✓ shipping  a sentence")
    assert all(len(line) <= 80 for line in left)


def test_a_step_that_fails_leaves_no_line_that_says_it_is_done():
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), Lines(out).step("billing", "processing"):
        raise KeyboardInterrupt
    assert out.getvalue() == "billing   processing ...\n"


def test_a_pipe_gets_lines_and_a_dumb_terminal_too(monkeypatch):
    assert isinstance(screen_for(io.StringIO()), Lines)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(screen_for(Screen()), Lines)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(screen_for(Screen()), Bars)


def test_the_end_fits_eighty_columns_and_counts_findings_that_are_alike(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = Screen()
    write_outcome(outcome("quickstart-0123ab-"), out, 80)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert out.getvalue().count("rewind: ") == 1
    assert "(and 3 more like this)" in " ".join(out.getvalue().split())
    assert "Report:  /somewhere/report.html" in out.getvalue()


def test_where_nobody_looked_no_findings_are_claimed():
    groups = (GroupOutcome("billing", 10, 0, 10, 0, 0, 0, None),)
    out = io.StringIO()
    write_outcome(outcome(groups=groups, found=(), report=None, left_out={"spark": "no Java"}), out, 80)
    assert "not audited" in out.getvalue()
    assert "none" not in out.getvalue()
    assert "Report:" not in out.getvalue()


def test_what_parts_log_goes_to_the_file_and_not_to_the_screen(tmp_path, capsys):
    with Quiet(str(tmp_path / "log")):
        logging.getLogger("seamark.parallel").error("the handler failed")
    assert "the handler failed" in (tmp_path / "log").read_text()
    assert capsys.readouterr() == ("", "")

"""Log lines are safe to read in the program's own handlers, and are left alone where there is nothing to escape."""

import io
import json
import logging

import pytest

from seamark.broker.metrics.log_lines import LogLines
from seamark.readable_log import LONGEST_LINE, ReadableFormatter, readable_logger

EVIL = "a\x1b[2J\x9b\u202e\n2026-11-16 INFO forged"


class Kept(logging.Handler):
    """As a program's own handler: it writes what the record says."""

    def __init__(self):
        super().__init__()
        self.records = []
        self.lines = []

    def emit(self, record):
        self.records.append(record)
        self.lines.append(self.format(record))


@pytest.fixture
def kept():
    handler, logger = Kept(), readable_logger("seamark.test.readable")
    logger.addHandler(handler)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)
    logger.propagate = True


@pytest.fixture
def log():
    return readable_logger("seamark.test.readable")


def raised(error):
    try:
        raise error
    except ValueError as caught:
        return caught


def test_a_hostile_name_is_escaped_before_a_handler_sees_the_line(kept, log):
    log.warning("group %s was removed", EVIL)
    log.warning(EVIL)
    assert kept.lines == [
        r"group a\x1b[2J\x9b\u202e\n2026-11-16 INFO forged was removed",
        r"a\x1b[2J\x9b\u202e\n2026-11-16 INFO forged",
    ]


def test_a_line_without_such_characters_keeps_its_template_and_arguments(kept, log):
    log.warning("group %s has %d members", "注文", 3)
    assert (kept.records[0].msg, kept.records[0].args) == ("group %s has %d members", ("注文", 3))


def test_a_traceback_cannot_forge_a_line(kept, log):
    log.error("a handler failed", exc_info=raised(ValueError(EVIL)))
    lines = kept.lines[0].split("\n")
    assert lines[0] == "a handler failed"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-2:] == [r"ValueError: a\x1b[2J\x9b\u202e", "    2026-11-16 INFO forged"]


def test_an_ordinary_traceback_is_made_by_the_programs_own_formatter(kept, log):
    class OneLine(logging.Formatter):
        def formatException(self, exc_info):
            return repr(exc_info[1])

    kept.setFormatter(OneLine("%(message)s"))
    log.error("a handler failed", exc_info=raised(ValueError("plain")))
    assert kept.lines == ["a handler failed\nValueError('plain')"]


def test_a_very_long_line_is_cut_and_says_so(kept, log):
    log.warning("client %s", "x" * 100_000)
    assert len(kept.lines[0]) < LONGEST_LINE + 100
    assert kept.lines[0].endswith("… (and 83623 more characters)")


def test_arguments_that_do_not_fit_the_template_are_the_handlers_matter(kept, log):
    with pytest.raises(TypeError):
        log.warning("%d members", "three")
    assert len(kept.records) == 1


def test_asking_for_a_logger_again_adds_nothing(log):
    assert readable_logger("seamark.test.readable").filters == log.filters
    assert len(log.filters) == 1


def test_our_own_handlers_make_lines_of_other_packages_readable_too():
    record = logging.LogRecord("asyncio", logging.ERROR, "x.py", 1, "peer %s", ("\x9b2J",), None)
    assert ReadableFormatter("%(message)s").format(record) == r"peer \x9b2J"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_of_the_broker_is_one_line_whatever_a_group_is_called(form):
    out = io.StringIO()
    lines = LogLines(form, out)
    lines.start()
    try:
        log = readable_logger("seamark.broker.groups")
        log.warning("group %s is empty", EVIL, extra={"event": "group_empty", "group": EVIL})
        log.error("it failed", exc_info=raised(ValueError(EVIL)))
    finally:
        lines.stop()
    written = out.getvalue()
    assert all(each.isprintable() or each == "\n" for each in written)
    assert not any(line.startswith("2026-11-16 INFO forged") for line in written.split("\n"))
    if form == "json":
        first, second = map(json.loads, written.splitlines())
        assert first["group"] == EVIL
        assert second["traceback"].startswith("Traceback")

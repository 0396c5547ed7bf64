"""A client that does the same thing again and again writes a few lines a minute, whatever it varies."""

import logging

from seamark import log_limits
from seamark.log_limits import LINES_IN_ALL, LINES_OF_A_CAUSE, MOST_CAUSES, LogLimits

log = logging.getLogger("seamark.tests")


def limited(caplog):
    caplog.set_level(logging.INFO, "seamark.tests")
    now = [0.0]
    return LogLimits(log, lambda: now[0]), now


def test_a_cause_from_an_address_has_a_few_lines_a_minute_and_the_rest_is_counted(caplog):
    limits, now = limited(caplog)
    for number in range(1000):
        limits.write(logging.INFO, "10.0.0.1", f"sent {number} bytes", about=f"port {number}: it ")
    assert len(caplog.messages) == LINES_OF_A_CAUSE
    assert caplog.messages[0] == "port 0: it sent 0 bytes"
    assert caplog.messages[-1].endswith("(more of this is left out for a minute)")
    now[0] = log_limits.MINUTE_S
    limits.write(logging.INFO, "10.0.0.1", "sent 7 bytes")
    assert caplog.messages[-1] == "sent 7 bytes (980 lines like this were left out before)"
    limits.write(logging.INFO, "10.0.0.1", "sent 7 bytes")
    assert caplog.messages[-1] == "sent 7 bytes"


def test_other_causes_and_other_addresses_have_lines_of_their_own(caplog):
    limits, _ = limited(caplog)
    for _ in range(100):
        limits.write(logging.INFO, "10.0.0.1", "was silent")
    limits.write(logging.INFO, "10.0.0.1", "was loud")
    limits.write(logging.INFO, "10.0.0.2", "was silent")
    assert caplog.messages[-2:] == ["was loud", "was silent"]


def test_many_addresses_together_are_limited_in_lines_and_in_memory(caplog):
    limits, _ = limited(caplog)
    for number in range(5 * MOST_CAUSES):
        limits.write(logging.INFO, f"10.0.{number >> 8}.{number & 255}", "was silent")
    assert len(caplog.messages) == LINES_IN_ALL
    assert len(limits) == MOST_CAUSES


def test_a_line_that_nobody_would_see_is_not_counted(caplog):
    limits, _ = limited(caplog)
    limits.write(logging.DEBUG, "10.0.0.1", "was silent")
    assert len(limits) == 0

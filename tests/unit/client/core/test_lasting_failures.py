"""Failures that last: when they are said, how often, and that they are over."""

from seamark.client.core.lasting_failures import AFTER_MS, AGAIN_MS, LastingFailures


def test_a_failure_that_passes_soon_is_not_spoken_of():
    failures = LastingFailures()
    assert failures.failed("t-0", "no leader", 0) is None
    assert failures.failed("t-0", "no leader", AFTER_MS - 1) is None
    assert failures.succeeded("t-0", AFTER_MS) is None


def test_one_that_lasts_is_said_once_then_rarely_and_when_it_is_over():
    failures = LastingFailures()
    times = range(0, AFTER_MS + AGAIN_MS + 1, 100)
    said = [(at, line) for at in times if (line := failures.failed("t-0", "no leader", at))]
    assert [at for at, _ in said] == [AFTER_MS, AFTER_MS + AGAIN_MS]
    assert said[0][1] == "t-0 could not be read for 5 s, still retrying: no leader"
    assert failures.succeeded("t-1", 70_000) is None
    assert failures.succeeded("t-0", 70_000) == "t-0 can be read again, after 70 s"
    assert failures.succeeded("t-0", 70_001) is None


def test_what_nobody_wants_any_more_begins_anew():
    failures = LastingFailures()
    failures.failed("t-0", "no leader", 0)
    failures.forget("t-0")
    assert failures.failed("t-0", "no leader", AFTER_MS) is None

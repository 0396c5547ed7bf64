"""Trouble that repeats itself: which of its lines are written, and what they count."""

from seamark.parallel.core.ports import ToCommit
from seamark.parallel.run.runtime import CommitObserver
from seamark.parallel.run.trouble_log import AGAIN_S, TroubleLog
from seamark.topic_partition import TopicPartition

PARTITION = TopicPartition("t", 0)


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


def test_trouble_is_told_at_first_once_a_minute_and_when_it_is_over(caplog):
    log = TroubleLog("It works again")
    for number in range(1_000):
        log.failed("It failed", OSError("away"), number * AGAIN_S / 1_000)
    log.failed("It failed", OSError("away"), AGAIN_S)
    log.succeeded()
    log.succeeded()
    assert lines(caplog) == [
        "It failed: away",
        "It failed: away (1,001 times in a row)",
        "It works again, after 1,001 failures",
    ]


def test_another_type_of_error_is_told_at_once(caplog):
    log = TroubleLog("It works again")
    for error in (OSError("a"), OSError("b"), KeyError("c"), OSError("d")):
        log.failed("It failed", error, 0.0)
    assert lines(caplog) == ["It failed: a", "It failed: 'c' (3 times in a row)", "It failed: d (4 times in a row)"]


def test_one_failure_alone_has_no_line_about_its_end(caplog):
    log = TroubleLog("It works again")
    log.failed("It failed", OSError("away"), 0.0)
    log.succeeded()
    assert lines(caplog) == ["It failed: away"]


def test_commits_that_are_refused_at_every_interval_are_one_line_and_all_are_told_to_the_callback(caplog):
    told = []
    news = CommitObserver(lambda offsets, error: told.append(error))
    offsets = {PARTITION: ToCommit(7, "")}
    for second in range(30):
        news.ended(offsets, {PARTITION: OSError("the member is joining the group")}, 0.1, float(second))
    news.ended(offsets, {PARTITION: None}, 0.1, 30.0)
    assert len(told) == 31
    assert lines(caplog) == [
        "A commit of 1 partition was rejected: the member is joining the group",
        "Commits are accepted again, after 30 failures",
    ]

"""What a client writes into the log, whatever a peer does: one line each, and not without end."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from seamark.client.admin import offsets as admin_offsets
from seamark.client.config.config import AdminConfig, ClientConfig
from seamark.client.core.effects import FailedCommitLog
from seamark.client.core.lasting_failures import AGAIN_MS
from seamark.client.errors import CommitFailed, RebalanceInProgress
from seamark.client.group_offsets import fetched_offsets
from seamark.client.net import client_log
from seamark.client.net.client_log import MOST_PER_MINUTE, ClientLog
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def log() -> ClientLog:
    return ClientLog(ClientConfig.from_options({"bootstrap.servers": "h:1"}))


def test_a_line_stays_one_line_of_bounded_length(log: ClientLog, caplog: pytest.LogCaptureFixture) -> None:
    log.say(logging.WARNING, "lost", "host a\r\nb\x1b[2J" + "x" * 100_000)
    [line] = [each.getMessage() for each in caplog.records]
    assert line.startswith("host a\\r\\nb\\x1b[2Jxxx")
    assert line.isprintable()
    assert len(line) < 5_000


def test_of_one_event_so_many_lines_are_written_in_a_minute_and_the_next_says_what_is_missing(
    log: ClientLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(client_log.time, "monotonic", lambda: now[0])
    for number in range(MOST_PER_MINUTE + 30):
        log.say(logging.WARNING, "waits", f"line {number}")
    log.say(logging.WARNING, "other", "another event")
    assert len(caplog.records) == MOST_PER_MINUTE + 1
    now[0] += 60
    log.say(logging.WARNING, "waits", "later")
    assert caplog.records[-1].getMessage() == "later (30 similar lines were suppressed)"


def test_automatic_commits_that_fail_are_told_once_now_and_then_and_when_it_is_over() -> None:
    log = FailedCommitLog(is_automatic=True)
    error = CommitFailed("the group has moved on", [PARTITION], "g")
    told = [log.ended([PARTITION], error, now_ms, 0) for now_ms in range(0, AGAIN_MS + 1, 1_000)]
    assert [number for number, lines in enumerate(told) if lines] == [0, AGAIN_MS // 1_000]
    assert told[0][0].text == "an automatic commit of t-0 failed: the group has moved on"
    assert told[-1][0].text == "an automatic commit of t-0 failed: the group has moved on (61 failed in a row)"
    [line] = log.ended([PARTITION], None, AGAIN_MS + 2_000, 0)
    assert line.text == "automatic commits succeed again, after 61 failures"
    assert log.ended([PARTITION], None, AGAIN_MS + 3_000, 0) == ()
    assert log.ended([PARTITION], error, AGAIN_MS + 4_000, 0), "the next time is told again"


def test_another_cause_and_another_rebalance_are_told_at_once() -> None:
    log = FailedCommitLog(is_automatic=False)
    joining = RebalanceInProgress("the member is joining the group", [PARTITION], "g")
    over = CommitFailed("the group has moved on", [PARTITION], "g")
    tries = [(joining, 1), (joining, 1), (over, 1), (over, 1), (joining, 2), (joining, 2)]
    told = [bool(log.ended([PARTITION], error, 0, rebalances)) for error, rebalances in tries]
    assert told == [True, False] * 3


def test_a_line_about_a_subject_is_said_once_and_not_about_every_name_that_is_made_up(caplog):
    log = ClientLog(AdminConfig.from_options({"bootstrap.servers": "127.0.0.1:1"}))
    for _ in range(3):
        for number in range(5000):
            log.say_once(logging.WARNING, "impossible_partition", f"group {number}", f"group {number} is odd")
    assert len(caplog.records) == MOST_PER_MINUTE
    assert len(log._said) == 1000


def test_a_partition_that_no_topic_can_have_is_left_out_of_a_groups_offsets_and_told_once(caplog):
    log = ClientLog(AdminConfig.from_options({"bootstrap.servers": "127.0.0.1:1"}))
    answered = [
        OffsetFetchResponsePartition(partition_index=index, committed_offset=7)
        for index in (-5, 0, 2**31 - 1, 2**31 - 2)
    ]
    response = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=answered)])
    for _ in range(3):
        fetched = fetched_offsets("g\x9b", response)
        found = admin_offsets._committed(SimpleNamespace(log=log), "g\x9b", fetched)
        assert {partition.partition for partition in found} == {0, 2**31 - 2}
    assert [record.getMessage() for record in caplog.records] == [
        r"group 'g\x9b' has a committed offset for partition -5 of topic 't', which is not a valid partition "
        r"number: ignored"
    ]

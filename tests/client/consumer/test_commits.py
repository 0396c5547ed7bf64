"""Commits and positions against every broker: what is stored, what is read next, and what goes wrong how."""

import threading
import time

import pytest

from seamark.client import Offset, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import (
    ClientError,
    CommitFailed,
    CommitMetadataTooLarge,
    NoOffsetForPartition,
    OffsetOutOfRange,
    OperationTimedOut,
    WakeUp,
)
from seamark.errors import UsageError
from tests.support.consumers import Consumers, poll_all, remove_member
from tests.support.produced import produce


@pytest.fixture
def consumers(kafka_like):
    made = Consumers(kafka_like.bootstrap)
    yield made
    made.close()


@pytest.fixture
def partition(admin, fresh_name, kafka_like):
    """A partition with ten records, their values being their offsets."""
    topic = fresh_name("topic")
    admin.create_topics([NewTopic(topic, 2, 1)]).raise_if_failed()
    made = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, made, [b"%d" % n for n in range(10)])
    return made


@pytest.fixture
def group(fresh_name):
    return fresh_name("group")


def read(consumer, count, **poll):
    got = []
    end = time.monotonic() + 30
    while len(got) < count:
        assert time.monotonic() < end, got
        got += consumer.poll(0.2, **poll)
    return [record.offset for record in got]


# covers: F1, F2, F17, I1, I12
def test_a_new_owner_starts_at_the_committed_offset(consumers, partition, group):
    first = consumers.add(group, [partition.topic], enable_auto_commit=False)
    assert read(first, 5, max_records=5) == [0, 1, 2, 3, 4]
    first.commit({partition: Offset(5, "so far")})
    [(where, stored)] = first.committed([partition]).items()
    assert where == partition
    assert (stored.offset, stored.metadata) == (5, "so far")
    first.close()
    second = consumers.add(group, [partition.topic], enable_auto_commit=False)
    assert read(second, 5) == [5, 6, 7, 8, 9]


# covers: I1, F3
def test_a_commit_without_offsets_stores_what_was_polled_with_its_leader_epoch(consumers, partition, group):
    consumer = consumers.add(group, [partition.topic], enable_auto_commit=False)
    read(consumer, 4, max_records=4)
    consumer.commit()
    stored = consumer.committed([partition])[partition]
    assert stored.offset == 4
    assert stored.leader_epoch >= 0
    other = TopicPartition(partition.topic, 1)
    assert consumer.committed([other])[other].offset == 0, "the start of an empty partition is a position too"


# covers: F25
def test_nothing_committed_is_none(consumers, partition, group):
    consumer = consumers.add(group)
    assert consumer.committed([partition]) == {partition: None}


# covers: I10, I11, I15
def test_callbacks_run_in_order_on_the_thread_that_polls(consumers, partition, group):
    consumer = consumers.add(group, [partition.topic], enable_auto_commit=False)
    poll_all([consumer], lambda: len(consumer.assignment()) == 2)
    ran = []

    def note(offsets, error):
        ran.append((offsets[partition].offset, error, threading.get_ident()))

    for offset in range(5):
        consumer.commit_async({partition: offset}, note)
    assert len(ran) < 5
    poll_all([consumer], lambda: len(ran) == 5)
    assert ran == [(offset, None, threading.get_ident()) for offset in range(5)]
    assert consumer.committed([partition])[partition].offset == 4


# covers: I15
def test_a_blocking_commit_returns_after_the_callbacks_of_earlier_ones(consumers, partition, group):
    consumer = consumers.add(group, [partition.topic], enable_auto_commit=False)
    poll_all([consumer], lambda: len(consumer.assignment()) == 2)
    ran = []
    for offset in range(3):
        consumer.commit_async({partition: offset}, lambda offsets, error: ran.append(offsets[partition].offset))
    consumer.commit({partition: 9})
    assert ran == [0, 1, 2]


# covers: F18, F19
def test_metadata_that_is_too_large_fails_its_partition_only(consumers, partition, group):
    consumer = consumers.add(group)
    consumer.assign([partition])
    other = TopicPartition(partition.topic, 1)
    consumer.commit({partition: Offset(1, "x" * 4096)})
    with pytest.raises(CommitMetadataTooLarge) as raised:
        consumer.commit({partition: Offset(2, "x" * 4097), other: Offset(3)})
    assert raised.value.partitions == (partition,)
    found = consumer.committed([partition, other])
    assert (found[partition].offset, found[other].offset) == (1, 3)


# covers: I25, F26
def test_a_manual_consumer_cannot_commit_into_a_group_with_members(consumers, partition, group):
    member = consumers.add(group, [partition.topic])
    poll_all([member], lambda: len(member.assignment()) == 2)
    manual = consumers.add(group)
    manual.assign([partition])
    with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
        manual.commit({partition: 1})


# covers: I5, I14
def test_auto_commit_happens_in_poll_once_the_interval_has_passed(consumers, partition, group):
    consumer = consumers.add(group, [partition.topic], auto_commit_interval_ms=400)
    reader = consumers.add(group)
    assert read(consumer, 10) == list(range(10))
    time.sleep(0.8)
    assert reader.committed([partition])[partition] is None, "no timer commits, only poll does"
    poll_all([consumer], lambda: (reader.committed([partition])[partition] or Offset(0)).offset == 10)


# covers: I29
@pytest.mark.parametrize("is_enabled", [True, False])
def test_closing_commits_only_with_auto_commit(consumers, partition, group, is_enabled):
    consumer = consumers.add(group, [partition.topic], enable_auto_commit=is_enabled)
    read(consumer, 10)
    consumer.close()
    stored = consumers.add(group).committed([partition])[partition]
    assert (stored is not None) == is_enabled
    if is_enabled:
        assert stored.offset == 10


# covers: I2, I3
@pytest.mark.parametrize(("commits_first", "reread"), [(True, []), (False, list(range(10)))])
def test_where_the_commit_stands_decides_what_a_crash_costs(consumers, partition, group, commits_first, reread):
    consumer = consumers.add(group, [partition.topic], enable_auto_commit=False)
    processed = []
    for record in consumer.poll(20.0, max_records=10) or consumer.poll(20.0, max_records=10):
        if commits_first and not processed:
            consumer.commit()
        processed.append(record.offset)
        if record.offset == 6:
            break
    consumer.close()
    produce(consumers.bootstrap, partition, [b"last"])
    after = consumers.add(group, [partition.topic], enable_auto_commit=False)
    assert read(after, len(reread) + 1) == [*reread, 10]


# covers: I30
@pytest.mark.parametrize(("policy", "first"), [("earliest", 0), ("latest", 10), ("by_duration:PT1H", 10)])
def test_without_a_committed_offset_the_policy_decides(consumers, partition, group, policy, first):
    consumer = consumers.add(group, auto_offset_reset=policy)
    consumer.assign([partition])
    assert consumer.position(partition) == first
    produce(consumers.bootstrap, partition, [b"new"])
    assert read(consumer, 11 - first)[0] == first


# covers: I30
def test_by_duration_finds_the_first_record_of_that_age(consumers, partition, group):
    now = int(time.time() * 1000)
    produce(consumers.bootstrap, partition, [b"old"], timestamp_ms=now - 7_200_000)
    produce(consumers.bootstrap, partition, [b"young"], timestamp_ms=now - 60_000)
    consumer = consumers.add(group, auto_offset_reset="by_duration:PT1H")
    consumer.assign([partition])
    assert consumer.position(partition) == 11


# covers: I30
def test_the_policy_none_raises_until_the_caller_seeks(consumers, partition, group):
    consumer = consumers.add(group, auto_offset_reset="none")
    consumer.assign([partition])
    for _ in range(2):
        with pytest.raises(NoOffsetForPartition) as raised:
            poll_all([consumer], lambda: False, timeout=10)
        assert raised.value.partitions == (partition,)
    consumer.seek(partition, 8)
    assert read(consumer, 2) == [8, 9]


# covers: I30
def test_a_position_outside_the_log_is_reset_or_raised(consumers, partition, group):
    resetting = consumers.add(group, auto_offset_reset="earliest")
    resetting.assign([partition])
    resetting.seek(partition, 1000)
    assert read(resetting, 10) == list(range(10))
    strict = consumers.add(group, auto_offset_reset="none")
    strict.assign([partition])
    strict.seek(partition, 1000)
    with pytest.raises(OffsetOutOfRange) as raised:
        poll_all([strict], lambda: False, timeout=10)
    assert raised.value.offsets == {partition: 1000}
    strict.seek(partition, 9)
    assert read(strict, 1) == [9]


# covers: I30
def test_seeking_by_offset_time_beginning_and_end(consumers, partition, group):
    consumer = consumers.add(group, enable_auto_commit=False)
    consumer.assign([partition])
    consumer.seek(partition, 4)
    assert read(consumer, 6) == [4, 5, 6, 7, 8, 9]
    consumer.seek_to_beginning([partition])
    assert consumer.position(partition) == 0
    consumer.seek_to_end()
    assert consumer.position(partition) == 10
    found = consumer.offsets_for_times({partition: 0})[partition]
    assert found.offset == 0
    consumer.seek_to_time(found.timestamp_ms + 3)
    assert consumer.position(partition) == 3
    assert consumer.offsets_for_times({partition: 2**50}) == {partition: None}
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}
    assert consumer.committed([partition]) == {partition: None}, "seeking commits nothing"
    with pytest.raises(UsageError, match="not assigned"):
        consumer.seek(TopicPartition("elsewhere", 0), 1)


def test_a_paused_partition_gives_nothing_and_goes_on_where_it_stopped(consumers, partition, group):
    consumer = consumers.add(group, enable_auto_commit=False)
    consumer.assign([partition])
    assert read(consumer, 3, max_records=3) == [0, 1, 2]
    consumer.pause([partition])
    assert consumer.paused() == {partition}
    for _ in range(5):
        assert consumer.poll(0.05) == []
    consumer.resume([partition])
    assert read(consumer, 7) == [3, 4, 5, 6, 7, 8, 9]


# covers: C24
def test_a_commit_of_a_member_that_was_removed_fails(consumers, partition, group):
    consumer = consumers.add(group, [partition.topic], enable_auto_commit=False, heartbeat_interval_ms=5000)
    poll_all([consumer], lambda: len(consumer.assignment()) == 2)
    remove_member(consumers.bootstrap, group, consumer.group_metadata().member_id)
    with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
        consumer.commit({partition: 1})
    assert consumer.group_metadata().generation_id == -1
    poll_all([consumer], lambda: consumer.group_metadata().generation_id > 0)
    consumer.commit({partition: 2})


def test_a_consumer_without_a_group_reads_and_does_not_commit(consumers, partition):
    consumer = consumers.add(None)
    consumer.assign([partition])
    assert read(consumer, 10) == list(range(10))
    with pytest.raises(UsageError, match=r"group\.id"):
        consumer.commit()
    with pytest.raises(UsageError, match=r"group\.id"):
        consumer.subscribe([partition.topic])


def test_calls_that_cannot_succeed_end_at_their_timeout(fresh_name):
    consumers = Consumers("127.0.0.1:9")
    consumer = consumers.add(fresh_name("group"))
    started = time.monotonic()
    with pytest.raises(OperationTimedOut, match="coordinator of group"):
        consumer.committed([TopicPartition("t", 0)], timeout=0.5)
    consumer.subscribe(["t"])
    assert consumer.poll(0.3) == []
    consumer.close(timeout=0.5)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("is_group", [True, False])
def test_a_consumer_that_never_reached_a_broker_says_so_within_its_timeout(fresh_name, is_group):
    consumers = Consumers("127.0.0.1:9")
    consumer = consumers.add(fresh_name("group") if is_group else None, default_api_timeout_ms=700)
    if is_group:
        consumer.subscribe(["t"])
    else:
        consumer.assign([TopicPartition("t", 0)])
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:9") as raised:
        poll_all([consumer], lambda: False, timeout=10)
    assert raised.value.is_retriable
    consumer.close(timeout=0.2)


def test_the_position_in_a_topic_that_does_not_exist_times_out_with_the_reason(consumers, fresh_name):
    consumer = consumers.add(None, allow_auto_create_topics=False)
    missing = TopicPartition(fresh_name("missing"), 0)
    consumer.assign([missing])
    with pytest.raises(OperationTimedOut, match="UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.position(missing, timeout=2.0)
    assert consumer.poll(0.1) == []


def test_a_wakeup_ends_a_blocking_commit(fresh_name):
    consumers = Consumers("127.0.0.1:9")
    consumer = consumers.add(fresh_name("group"))
    consumer.assign([TopicPartition("t", 0)])
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    with pytest.raises(WakeUp):
        consumer.commit({TopicPartition("t", 0): 1}, timeout=20)
    timer.join()
    consumer.close(timeout=0.2)

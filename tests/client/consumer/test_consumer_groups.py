"""Consumer groups against every broker: who owns what, who is told, and who stays a member."""

import asyncio
import gc
import threading
import time

import pytest

from seamark.assignors import Assignor, MemberAssignment
from seamark.client import TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.consumer.async_consumer import AsyncConsumer
from seamark.client.core.listener import ListenerFailed
from seamark.client.errors import CommitFailed, ConcurrentUse, MemberFenced, WakeUp
from seamark.errors import ClosedError, UsageError
from tests.support.consumers import QUICK, Consumers, owners, poll_all, shares
from tests.support.produced import produce

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture
def consumers(kafka_like):
    made = Consumers(kafka_like.bootstrap)
    yield made
    made.close()


@pytest.fixture
def make_topic(admin, fresh_name):
    def make(partitions=4, name=None):
        name = name or fresh_name("topic")
        admin.create_topics([NewTopic(name, partitions, 1)]).raise_if_failed()
        return name

    return make


class Notes:
    """A listener that writes down what it hears."""

    def __init__(self):
        self.heard = []

    @property
    def functions(self):
        return {
            f"on_{word}": (lambda partitions, word=word: self.heard.append((word, [p.partition for p in partitions])))
            for word in ("assigned", "revoked", "lost")
        }


# covers: C27, E4, E5, C30
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_that_come_and_go_share_the_partitions(consumers, make_topic, fresh_name, strategy):
    topic, group = make_topic(4), fresh_name("group")
    first = consumers.add(group, [topic], partition_assignment_strategy=strategy)
    poll_all([first], lambda: len(first.assignment()) == 4)
    second = consumers.add(group, [topic], partition_assignment_strategy=strategy)
    poll_all([first, second], shares([first, second], 4))
    assert len(owners([first, second])) == 4
    first.close()
    poll_all([second], lambda: len(second.assignment()) == 4)


# covers: C30
def test_a_cooperative_member_keeps_reading_what_it_keeps(consumers, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    one, two = Notes(), Notes()
    first = consumers.add(group, [topic], listener=one.functions, partition_assignment_strategy="cooperative-sticky")
    poll_all([first], lambda: len(first.assignment()) == 2)
    terms = first.terms()
    second = consumers.add(group, [topic], listener=two.functions, partition_assignment_strategy="cooperative-sticky")
    poll_all([first, second], lambda: len(first.assignment()) == 1 and len(second.assignment()) == 1)
    assert one.heard[:3] == [("assigned", [0, 1]), ("revoked", [1]), ("assigned", [])]
    assert two.heard == [("assigned", []), ("assigned", [1])]
    [kept] = first.assignment()
    assert first.terms()[kept] == terms[kept], "what was never given up has its first term"


# covers: C30, I26
def test_an_eager_member_is_revoked_of_everything_and_its_terms_rise(consumers, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    notes = Notes()
    first = consumers.add(group, [topic], listener=notes.functions, partition_assignment_strategy="range")
    poll_all([first], lambda: len(first.assignment()) == 2)
    second = consumers.add(group, [topic], partition_assignment_strategy="range")
    poll_all([first, second], shares([first, second], 2))
    [kept] = first.assignment()
    assert notes.heard[:3] == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [kept.partition])]
    assert first.terms() == {kept: 2}


# covers: C6
def test_a_pattern_finds_topics_that_come_later(consumers, make_topic, fresh_name):
    prefix, group = fresh_name("pattern"), fresh_name("group")
    make_topic(1, f"{prefix}.a")
    make_topic(1, f"other-{prefix}.b")
    consumer = consumers.add(group, f"^{prefix}\\..*")
    poll_all([consumer], lambda: len(consumer.assignment()) == 1)
    make_topic(2, f"{prefix}.c")
    poll_all([consumer], lambda: len(consumer.assignment()) == 3)
    assert consumer.subscription() == {f"{prefix}.a", f"{prefix}.c"}


# covers: C22
def test_a_topic_that_grows_is_read_whole(consumers, make_topic, admin, fresh_name):
    topic, group = make_topic(1), fresh_name("group")
    consumer = consumers.add(group, [topic])
    poll_all([consumer], lambda: len(consumer.assignment()) == 1)
    admin.create_partitions({topic: 3}).raise_if_failed()
    poll_all([consumer], lambda: len(consumer.assignment()) == 3)


# covers: C32
def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(consumers, make_topic, fresh_name):
    topic, group = make_topic(4), fresh_name("group")
    notes = Notes()
    first = consumers.add(group, [topic], group_instance_id="one")
    second = consumers.add(group, [topic], listener=notes.functions, group_instance_id="two")
    poll_all([first, second], shares([first, second], 4))
    before = first.assignment()
    generation = second.group_metadata().generation_id
    notes.heard.clear()
    first.close()
    again = consumers.add(group, [topic], group_instance_id="one")
    poll_all([again, second], lambda: again.assignment() == before)
    assert second.group_metadata().generation_id == generation
    assert notes.heard == []


# covers: C32
def test_a_static_member_can_be_told_to_leave(consumers, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    first = consumers.add(group, [topic], group_instance_id="one")
    second = consumers.add(group, [topic], group_instance_id="two")
    poll_all([first, second], shares([first, second], 2))
    first.close(leave=True)
    poll_all([second], lambda: len(second.assignment()) == 2, timeout=4.0)


# covers: C31
def test_an_identity_that_is_taken_is_heard_of_and_can_be_taken_back(consumers, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    notes = Notes()
    first = consumers.add(group, [topic], listener=notes.functions, group_instance_id="one", enable_auto_commit=False)
    poll_all([first], lambda: len(first.assignment()) == 2)
    second = consumers.add(group, [topic], group_instance_id="one", enable_auto_commit=False)
    poll_all([second], lambda: len(second.assignment()) == 2)
    with pytest.raises(MemberFenced, match="instance 'one'"):
        poll_all([first], lambda: False, timeout=10)
    poll_all([first], lambda: notes.heard[-1] == ("assigned", [0, 1]) and len(notes.heard) == 3)
    assert notes.heard[1] == ("lost", [0, 1])
    with pytest.raises(MemberFenced, match="instance 'one'"):
        poll_all([second], lambda: False, timeout=10)


# covers: C32, C26
def test_a_member_that_does_not_poll_in_time_leaves_and_has_lost_its_partitions(consumers, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    notes = Notes()
    slow = consumers.add(group, [topic], listener=notes.functions, max_poll_interval_ms=6500, enable_auto_commit=False)
    poll_all([slow], lambda: len(slow.assignment()) == 2)
    other = consumers.add(group, [topic], enable_auto_commit=False)
    poll_all([slow, other], shares([slow, other], 2))
    [kept] = slow.assignment()
    poll_all([other], lambda: len(other.assignment()) == 2)
    with pytest.raises(CommitFailed):
        slow.commit({kept: 5})
    notes.heard.clear()
    poll_all([slow, other], shares([slow, other], 2))
    assert notes.heard[0] == ("lost", [kept.partition])


# covers: C16, C13
def test_a_listener_that_raises_is_heard_and_the_consumer_goes_on(consumers, make_topic, fresh_name):
    topic, group = make_topic(1), fresh_name("group")
    calls = []

    def on_assigned(partitions):
        calls.append(partitions)
        if len(calls) == 1:
            raise ValueError("not yet")

    consumer = consumers.add(group, [topic], listener={"on_assigned": on_assigned})
    with pytest.raises(ListenerFailed, match="on_assigned raised ValueError: not yet"):
        poll_all([consumer], lambda: len(calls) > 1)
    produce(consumers.bootstrap, TopicPartition(topic, 0), [b"x"])
    got = []
    poll_all([consumer], lambda: bool(got), collect=got)
    assert calls == [[TopicPartition(topic, 0)]] * 2


# covers: I18, I15
def test_a_listener_may_commit_seek_and_ask_from_inside_poll(consumers, make_topic, fresh_name):
    topic, group = make_topic(1), fresh_name("group")
    partition = TopicPartition(topic, 0)
    produce(consumers.bootstrap, partition, [b"%d" % n for n in range(10)])
    seen = []

    def on_assigned(partitions):
        for each in partitions:
            consumer.seek(each, 7)
        seen.append(consumer.committed(partitions))

    consumer = consumers.add(group, [topic], listener={"on_assigned": on_assigned})
    got = []
    poll_all([consumer], lambda: len(got) == 3, collect=got)
    assert [record.offset for record in got] == [7, 8, 9]
    assert seen == [{partition: None}]


# covers: I16, I18
def test_a_second_thread_is_refused_while_the_first_polls_and_can_wake_it(consumers, make_topic, fresh_name):
    consumer = consumers.add(fresh_name("group"), [make_topic(1)])
    poll_all([consumer], lambda: len(consumer.assignment()) == 1)
    outcome = []

    def poll():
        try:
            consumer.poll(30.0)
        except WakeUp as error:
            outcome.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    time.sleep(0.3)
    with pytest.raises(ConcurrentUse, match="Consumer is in use"):
        consumer.poll(0.1)
    assert consumer.metrics()["seamark_consumer_assigned_partitions"] == 1
    consumer.wakeup()
    thread.join(5)
    assert not thread.is_alive()
    assert [type(error) for error in outcome] == [WakeUp]
    consumer.poll(0.1)


def test_a_wakeup_before_a_wait_ends_the_next_one(consumers, make_topic, fresh_name):
    consumer = consumers.add(fresh_name("group"), [make_topic(1)])
    consumer.wakeup()
    with pytest.raises(WakeUp):
        consumer.poll(5.0)
    consumer.poll(0.01)


# covers: I29
def test_unsubscribing_revokes_and_leaves_at_once(consumers, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    notes = Notes()
    first = consumers.add(group, [topic], listener=notes.functions)
    second = consumers.add(group, [topic])
    poll_all([first, second], shares([first, second], 2))
    owned = sorted(partition.partition for partition in first.assignment())
    first.unsubscribe()
    assert notes.heard[-1] == ("revoked", owned)
    assert first.assignment() == frozenset()
    poll_all([second], lambda: len(second.assignment()) == 2, timeout=4.0)
    with pytest.raises(UsageError, match="no subscription or assignment"):
        first.poll(0.1)
    first.subscribe([topic])
    poll_all([first, second], shares([first, second], 2))


@pytest.mark.slow
def test_a_consumer_that_is_dropped_without_being_closed_stops_beating(consumers, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    dropped = consumers.add(group, [topic])
    other = consumers.add(group, [topic])
    poll_all([dropped, other], shares([dropped, other], 2))
    consumers.made.remove(dropped)
    del dropped
    gc.collect()
    poll_all([other], lambda: len(other.assignment()) == 2)


def test_a_listener_may_close_its_consumer(consumers, make_topic, fresh_name):
    consumer = consumers.add(fresh_name("group"))
    consumer.subscribe([make_topic(1)], on_assigned=lambda partitions: consumer.close())
    with pytest.raises(ClosedError, match="closed"):
        poll_all([consumer], lambda: False)


def test_a_closed_consumer_says_so_and_closing_again_does_nothing(consumers, make_topic, fresh_name):
    consumer = consumers.add(fresh_name("group"), [make_topic(1)])
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.commit, lambda: consumer.subscribe(["x"])):
        with pytest.raises(ClosedError, match="closed"):
            call()


# covers: E1, E3
class AllToTheFirst(Assignor):
    name = "all-to-the-first"

    def assign(self, cluster, members):
        first = min(members, key=lambda member: member.user_data or b"")
        everything = tuple(cluster.partitions_of({topic for member in members for topic in member.topics}))
        return {m.member_id: MemberAssignment(everything if m is first else ()) for m in members}

    def __init__(self, rank=b"z"):
        self.rank = rank

    def subscription_user_data(self, topics):
        return self.rank


def test_a_custom_assignor_decides_by_what_the_members_say(consumers, make_topic, fresh_name):
    topic, group = make_topic(3), fresh_name("group")
    last = consumers.add(group, [topic], partition_assignment_strategy=[AllToTheFirst(b"2")])
    first = consumers.add(group, [topic], partition_assignment_strategy=[AllToTheFirst(b"1")])
    poll_all([last, first], lambda: len(first.assignment()) == 3 and not last.assignment())


# covers: E6
def test_a_rolling_restart_moves_a_live_group_to_cooperative(consumers, make_topic, fresh_name):
    topic, group = make_topic(4), fresh_name("group")
    members = [consumers.add(group, [topic]) for _ in range(2)]
    poll_all(members, shares(members, 4))
    for index in range(2):
        members[index].close()
        members[index] = consumers.add(group, [topic], partition_assignment_strategy="cooperative-sticky")
        poll_all(members, shares(members, 4))
    assert len(owners(members)) == 4


# covers: I3, I1
def test_every_record_is_seen_while_members_come_and_go(consumers, make_topic, fresh_name):
    topic, group = make_topic(4), fresh_name("group")
    for index in range(4):
        produce(consumers.bootstrap, TopicPartition(topic, index), [b"%d" % n for n in range(300)])
    seen = set()

    def read(members, rounds):
        for _ in range(rounds):
            for member in members:
                records = member.poll(0.05, max_records=20)
                seen.update((record.partition, record.offset) for record in records)

    make = {"partition_assignment_strategy": "cooperative-sticky", "auto_commit_interval_ms": 100}
    members = [consumers.add(group, [topic], **make)]
    for _ in range(3):
        members.append(consumers.add(group, [topic], **make))
        read(members, 10)
        members.pop(0).close()
    end = time.monotonic() + 40
    while len(seen) < 1200:
        assert time.monotonic() < end, len(seen)
        read(members, 5)
    assert seen == {(partition, offset) for partition in range(4) for offset in range(300)}


# covers: C30, I1
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_commit_in_on_revoked_hands_partitions_over_without_repeating_a_record(
    consumers, make_topic, fresh_name, strategy
):
    topic, group = make_topic(2), fresh_name("group")
    for index in range(2):
        produce(consumers.bootstrap, TopicPartition(topic, index), [b"%d" % n for n in range(100)])
    seen = []
    make = {"partition_assignment_strategy": strategy, "enable_auto_commit": False}

    def add():
        consumer = consumers.add(group, **make)
        consumer.subscribe([topic], on_revoked=lambda partitions: consumer.commit())
        return consumer

    members = [add()]
    end = time.monotonic() + 30
    while len(seen) < 200:
        assert time.monotonic() < end, len(seen)
        if len(seen) > 60 and len(members) == 1:
            members.append(add())
        for member in members:
            seen += [(record.partition, record.offset) for record in member.poll(0.1, max_records=10)]
    assert len(seen) == len(set(seen)) == 200


# covers: I4
def test_a_group_can_be_shared_with_another_client(consumers, make_topic, fresh_name, kafka_like):
    kafka = pytest.importorskip("kafka")
    topic, group = make_topic(4), fresh_name("group")
    ours = consumers.add(group, [topic], partition_assignment_strategy="range")
    version = {} if kafka_like.name.startswith("apache") else {"api_version": (2, 4)}
    theirs = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=kafka_like.bootstrap,
        group_id=group,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
        **version,
    )
    try:
        end = time.monotonic() + 30
        while not (len(ours.assignment()) == 2 and len(theirs.assignment()) == 2):
            assert time.monotonic() < end, (ours.assignment(), theirs.assignment())
            ours.poll(0.1)
            theirs.poll(100)
        mine = {tuple(partition) for partition in ours.assignment()}
        assert mine.isdisjoint((each.topic, each.partition) for each in theirs.assignment())
    finally:
        theirs.close()
    poll_all([ours], lambda: len(ours.assignment()) == 4)


def test_the_awaitable_consumer_runs_listeners_as_coroutines(kafka_like, make_topic, fresh_name):
    topic, group = make_topic(2), fresh_name("group")
    partition = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, partition, [b"a", b"b", b"c"])

    async def main():
        heard, committed = [], []

        async def on_assigned(partitions):
            await asyncio.sleep(0.01)
            heard.append(len(partitions))

        async def on_commit(offsets, error):
            committed.append((offsets[partition].offset, error))

        config = {**QUICK, "bootstrap.servers": kafka_like.bootstrap, "group.id": group, "enable.auto.commit": False}
        async with AsyncConsumer(config) as consumer:
            await consumer.subscribe([topic], on_assigned=on_assigned)
            got = []
            async for record in consumer:
                got.append(record.value)
                if len(got) == 3:
                    break
            await consumer.commit_async(callback=on_commit)
            await consumer.commit({partition: 2})
            assert (await consumer.committed([partition]))[partition].offset == 2
            assert await consumer.position(partition) == 3
            waiting = asyncio.create_task(consumer.poll(30))
            await asyncio.sleep(0.1)
            with pytest.raises(ConcurrentUse):
                await consumer.poll(0)
            consumer.wakeup()
            with pytest.raises(WakeUp):
                await waiting
            # A handler that blocks its own loop does no harm.
            time.sleep(0.5)
            await consumer.poll(0)
        return heard, got, committed

    heard, got, committed = asyncio.run(main())
    assert heard == [2]
    assert got == [b"a", b"b", b"c"]
    assert committed == [(3, None)]

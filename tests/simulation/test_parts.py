"""The parts a lifetime is made of: time, network, books and ledgers, each by itself."""

import random

import pytest

from seamark.broker.clock import LoopTimers
from seamark.coordinator.commands import CommitOffsets, Heartbeat
from seamark.coordinator.replies import HeartbeatReply
from seamark.coordinator.storing.records import GroupRemoved, GroupStored, OffsetCommitted, OffsetRemoved, StoredMember
from seamark.simulation.broker.ledger import Ledger
from seamark.simulation.broker.virtual_loop import ProcessLoop, Timing, VirtualClock
from seamark.simulation.world.books import Books
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.network import Network
from seamark.simulation.world.transcript import Transcript
from seamark.simulation.world.violations import InvariantViolated, LifetimeFailed


def commit_of(partition, offset):
    return OffsetCommitted("g", "t", partition, offset, -1, "", 0)


def stored(generation, *ids):
    members = tuple(StoredMember(each, None, "", "", 1000, 1000, b"", b"") for each in ids)
    return GroupStored("g", "consumer", generation, "range", None, 0, members)


class Recorder:
    name = "recorder"

    def __init__(self):
        self.replies = []
        self.breaks = 0

    def on_reply(self, connection, correlation, command, reply):
        self.replies.append(correlation)

    def on_disconnect(self, connection):
        self.breaks += 1


def a_network(answer_at_once=True):
    loop = EventLoop()
    arrived = []

    def deliver(request):
        arrived.append(request)
        if answer_at_once:
            network.answer(request, HeartbeatReply())

    network = Network(loop, random.Random(3), [], deliver)
    network.is_broker_up = True
    return loop, network, arrived


def test_calls_of_one_moment_keep_their_order():
    loop = EventLoop()
    seen = []
    for number in range(5):
        loop.call_at(10, seen.append, number)
    loop.call_at(-5, seen.append, "late")
    loop.run_until(10)
    assert seen == ["late", 0, 1, 2, 3, 4]
    assert loop.steps == 6


def test_messages_of_one_connection_arrive_in_order_and_are_answered_in_order():
    loop, network, arrived = a_network()
    peer = Recorder()
    connection = network.connect(peer)
    network.latency_ms = 500
    for _ in range(50):
        network.send(connection, Heartbeat("g", "m", 1))
    loop.run_until(100_000)
    assert [request.correlation for request in arrived] == list(range(50))
    assert peer.replies == list(range(50))
    assert network.delivered == 100


def test_connections_overtake_each_other():
    loop, network, arrived = a_network()
    network.latency_ms = 500
    peers = [Recorder() for _ in range(20)]
    connections = [network.connect(peer) for peer in peers]
    for connection in connections:
        network.send(connection, Heartbeat("g", "m", 1))
    loop.run_until(100_000)
    assert [connections.index(request.connection) for request in arrived] != list(range(20))


def test_an_answer_waits_for_the_answers_before_it():
    loop, network, arrived = a_network(answer_at_once=False)
    peer = Recorder()
    connection = network.connect(peer)
    network.send(connection, Heartbeat("g", "m", 1))
    network.send(connection, Heartbeat("g", "m", 2))
    loop.run_until(1000)
    network.answer(arrived[1], HeartbeatReply())
    loop.run_until(2000)
    assert peer.replies == []
    network.answer(arrived[0], HeartbeatReply())
    loop.run_until(3000)
    assert peer.replies == [0, 1]


def test_a_dropped_message_takes_the_connection_with_it():
    loop, network, arrived = a_network()
    peer = Recorder()
    connection = network.connect(peer)
    network.drop_chance = 1.0
    network.send(connection, Heartbeat("g", "m", 1))
    network.drop_chance = 0.0
    network.send(connection, Heartbeat("g", "m", 1))
    loop.run_until(100_000)
    assert arrived == []
    assert peer.breaks == 1
    assert not connection.is_open


def test_a_repeated_request_comes_twice_and_is_answered_once():
    loop, network, arrived = a_network()
    peer = Recorder()
    connection = network.connect(peer)
    network.copy_chance = 1.0
    network.send(connection, Heartbeat("g", "m", 1))
    loop.run_until(100_000)
    assert len(arrived) == 2
    assert peer.replies == [0]


def test_a_broker_that_is_gone_answers_nobody_and_a_new_one_not_its_clients():
    loop, network, arrived = a_network()
    connection = network.connect(Recorder())
    network.send(connection, Heartbeat("g", "m", 1))
    network.lose_broker()
    assert network.connect(Recorder()) is None
    network.is_broker_up = True
    network.broker_life += 1
    loop.run_until(100_000)
    assert arrived == []


def a_process(turn_ms=0):
    loop, timing = EventLoop(), Timing()
    timing.turn_ms = turn_ms
    process = ProcessLoop(loop, random.Random(1), lambda call, *arguments: call(*arguments), timing)
    return loop, process, VirtualClock(process, timing), timing


@pytest.mark.parametrize("turn_ms", [0, 50])
def test_calls_that_are_to_come_soon_keep_their_order_on_a_busy_loop_too(turn_ms):
    loop, process, _, timing = a_process(turn_ms)
    seen = []
    for number in range(20):
        process.call_soon(seen.append, number)
    timing.turn_ms = 0
    process.call_soon(seen.append, 20)
    loop.run_until(100)
    assert seen == list(range(21))


def test_the_timers_of_a_broker_come_in_the_millisecond_they_are_due_on_the_virtual_loop():
    loop, process, clock, _ = a_process()
    timers = LoopTimers(process, clock)
    seen = []
    for delay_ms in range(1, 400, 7):
        timers.call_after(delay_ms / 1000, lambda delay_ms=delay_ms: seen.append(loop.now_ms - delay_ms))
    timers.call_after(0.2, lambda: seen.append("cancelled")).cancel()
    loop.run_until(1000)
    assert seen == [0] * len(range(1, 400, 7))


def test_the_clocks_of_a_broker_are_virtual_and_only_the_wall_clock_is_set():
    loop, _, clock, timing = a_process()
    loop.run_until(1234)
    before = clock.now_ms()
    timing.clock_error_ms = -5000
    assert clock.now_ms() == before - 5000
    assert int(clock.monotonic() * 1000) == 1234


# F7
def test_books_keep_the_last_value_of_each_key_in_the_order_of_the_log():
    books = Books(0)
    first = books.note_append([0], [commit_of(0, 100), commit_of(1, 7)], 0, 2)
    second = books.note_append([1], [commit_of(0, 50), OffsetRemoved("g", "t", 1)], 2, 4)
    assert books.applied == {}
    assert books.note_acknowledged(second) == []
    assert books.applied == {}, "an early acknowledgement waits"
    assert books.note_acknowledged(first) == [first, second]
    assert books.applied == {("g", "t", 0): commit_of(0, 50)}
    assert books.values(("g", "t", 1)) == [None, commit_of(1, 7)]
    assert books.acknowledged_end == 4


def books_with(*sizes):
    """Books of which each append has so many records; the asker of each is its number."""
    books = Books(0)
    for ticket, size in enumerate(sizes):
        books.note_decided(ticket, [commit_of(number, ticket) for number in range(size)], None, 0)
    return books


def written(books, count, *, is_stored=True):
    base = books.batches[-1].next_offset if books.batches else 0
    batch = books.note_written(books.take_decided(count), base)
    batch.is_stored, batch.has_failed = is_stored, not is_stored
    return batch


def test_books_want_appends_written_whole_and_in_their_order():
    books = books_with(2, 1, 3)
    assert written(books, 3).tickets == [0, 1]
    with pytest.raises(InvariantViolated, match="whole"):
        books.take_decided(2)
    with pytest.raises(InvariantViolated, match="whole"):
        books_with().take_decided(1)


def test_books_want_the_outcome_of_a_batch_told_once_and_as_it_is():
    books = books_with(1, 1, 1, 1)
    batch = written(books, 2)
    for tickets in ([0], [0, 1, 2], [2], [5]):
        with pytest.raises(InvariantViolated, match="outcome"):
            books.note_told_stored(tickets)
    assert books.note_told_stored([0, 1]) == [batch]
    with pytest.raises(InvariantViolated, match="outcome"):
        books.note_told_stored([0, 1])
    written(books, 1, is_stored=False)
    with pytest.raises(InvariantViolated, match="outcome"):
        books.note_told_stored([2])
    assert books.note_told_failed(2) == []
    with pytest.raises(InvariantViolated, match="outcome"):
        books.note_told_failed(2)
    written(books, 1)
    with pytest.raises(InvariantViolated, match="outcome"):
        books.note_told_failed(3)


def test_books_do_not_care_for_outcomes_of_groups_that_were_given_up():
    books = books_with(1, 1)
    written(books, 1)
    books.give_up()
    assert books.note_told_stored([0]) == []
    assert books.note_told_failed(1) == []
    books.note_decided(2, [commit_of(0, 9)], None, 0)
    assert written(books, 1).tickets == [2]


def test_books_apply_what_was_stored_behind_an_append_that_failed():
    books = books_with(1, 1)
    written(books, 1, is_stored=False)
    behind = written(books, 1)
    assert books.note_told_stored([1]) == []
    assert books.note_told_failed(0) == [behind]
    assert books.applied == {("g", "t", 0): commit_of(0, 1)}


def test_books_are_cut_with_the_log_and_say_when_a_promise_was_lost():
    books = Books(0)
    books.note_acknowledged(books.note_append([0], [commit_of(0, 1)], 0, 1))
    books.note_append([1], [stored(1, "m")], 1, 2)
    assert books.settle_opening(1) is False
    assert books.written == {("g", "t", 0): commit_of(0, 1)}
    books.least_end = 0
    assert books.settle_opening(0) is True
    assert books.written == {}


def test_books_find_what_is_missing_and_what_should_not_be_there():
    books = Books(0)
    books.note_acknowledged(books.note_append([0], [commit_of(0, 1), commit_of(1, 1)], 0, 2))
    books.expect(2, is_power_loss=True, is_synced_before_replies=True)
    with pytest.raises(InvariantViolated, match="promised"):
        books.settle_opening(0)
    books.least_end = 0
    with pytest.raises(InvariantViolated, match="between batches"):
        books.settle_opening(1)


def test_an_append_that_may_have_failed_is_found_or_not():
    for log_end, expected in ((1, {}), (2, {("g",): stored(1, "m")})):
        books = Books(0)
        books.note_append([0], [GroupRemoved("g")], 0, 1)
        books.uncertain = [stored(1, "m")]
        books.settle_opening(log_end)
        assert books.written == expected


def test_a_power_loss_may_take_what_only_the_operating_system_had():
    books = Books(0)
    books.note_acknowledged(books.note_append([0], [commit_of(0, 1)], 0, 1))
    books.expect(0, is_power_loss=False, is_synced_before_replies=False)
    assert books.least_end == 1
    books.expect(None, is_power_loss=True, is_synced_before_replies=False)
    assert books.least_end == 0


def a_ledger():
    ledger = Ledger("g")
    ledger.grant("a", None, 1, 1000, 0)
    ledger.grant("b", "i", 1, 1000, 0)
    ledger.note_stored(stored(1, "a", "b"))
    return ledger


def committing(member_id="a", generation=1, instance_id=None):
    return CommitOffsets("g", [], generation, member_id, instance_id)


def check(ledger, command, now_ms=10, *, is_parked=False, has_parked_join=False):
    ledger.check_commit(command, now_ms, is_parked, has_parked_join)


# F26, D33, D30
@pytest.mark.parametrize(
    ("spoil", "command"),
    [
        (lambda ledger: None, committing(generation=0)),
        (lambda ledger: None, committing(generation=2)),
        (lambda ledger: None, committing("nobody")),
        (lambda ledger: None, committing("b", instance_id="other")),
        (lambda ledger: None, committing("", -1)),
        (lambda ledger: ledger.depart("a"), committing()),
        (lambda ledger: ledger.depart_instance("i"), committing("b", instance_id="i")),
        (lambda ledger: ledger.grant("c", "i", 1, 1000, 0), committing("b", instance_id="i")),
        (lambda ledger: ledger.grant("b", "i", 2, 1000, 0), committing()),
        (lambda ledger: ledger.grant("a", None, 2, 1000, 0), committing(generation=2)),
        (lambda ledger: ledger.alive_ms.update(a=-2000), committing()),
        (lambda ledger: ledger.note_emptied(2), committing()),
        (lambda ledger: ledger.load(stored(1, "b"), 0), committing()),
    ],
)
def test_a_ledger_knows_who_may_not_commit(spoil, command):
    ledger = a_ledger()
    check(ledger, committing())
    check(ledger, committing("b", instance_id="i"))
    spoil(ledger)
    with pytest.raises(InvariantViolated, match="never commits"):
        check(ledger, command)


def test_a_ledger_lets_simple_consumers_into_empty_groups_only():
    ledger = a_ledger()
    ledger.note_emptied(2)
    check(ledger, committing("", -1))
    with pytest.raises(InvariantViolated):
        check(ledger, committing("", -1), has_parked_join=True)


def test_a_ledger_lets_nobody_share_a_partition():
    ledger = a_ledger()
    ledger.own("a", 1, [("t", 0)])
    ledger.own("a", 1, [("t", 0)])
    ledger.own("b", 2, [("t", 0)])
    with pytest.raises(InvariantViolated, match="one owner"):
        ledger.own("b", 1, [("t", 0)])
    ledger.begin_incarnation()
    ledger.own("b", 1, [("t", 0)])


def test_a_ledger_wants_generations_to_rise_and_protocols_to_agree():
    ledger = a_ledger()
    ledger.agree(1, "range")
    with pytest.raises(InvariantViolated, match="protocol"):
        ledger.agree(1, "roundrobin")
    with pytest.raises(InvariantViolated, match="go up"):
        ledger.grant("a", None, 0, 1000, 0)


def test_a_failure_tells_its_seed_its_step_and_how_to_replay_it():
    failure = LifetimeFailed("calm", 17, 42, "something", "the events")
    assert "seed 17" in str(failure)
    assert "step 42" in str(failure)
    assert "seamark simulate --scenario calm --seed 17" in str(failure)
    assert failure.__reduce__()[1][-1] == "the events"


def test_a_transcript_shows_its_end_and_tells_all_courses_apart():
    one, other = Transcript(), Transcript()
    one.events += [(1, "a", "x"), (2, "b", 3)]
    other.events += [(1, "a", "x"), (2, "b", 4)]
    assert one.text(1).splitlines()[0] == "… 1 earlier events"
    assert "b" in one.text(1).splitlines()[1]
    assert one.digest() != other.digest()

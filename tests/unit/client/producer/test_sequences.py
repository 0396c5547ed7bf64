"""Idempotence: identities and sequences through retries, failures and brokers that lost track."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seamark.client.producer.batches import ProducerBatch
from seamark.client.producer.sequences import LAST_EPOCH, Decision, Identity, Sequences
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(count: int = 2, partition: TopicPartition = A) -> ProducerBatch:
    made = ProducerBatch(partition, 0)
    for _ in range(count):
        made.append(None, b"v", (), 0)
    return made


def sequences() -> Sequences:
    made = Sequences()
    made.identified(50, 0)
    return made


def sent(made: Sequences, *batches: ProducerBatch) -> list[tuple[tuple[int, int], int]]:
    for each in batches:
        made.assign(each)
    return [(each.identity, each.base_sequence) for each in batches]


def started(partition: TopicPartition = A) -> Sequences:
    """With a first batch of two records acknowledged."""
    made, first = sequences(), batch(partition=partition)
    sent(made, first)
    made.delivered(first)
    return made


def test_nothing_is_sent_without_an_identity() -> None:
    made = Sequences()
    assert made.needs_identity
    assert not made.may_send(batch(), 0, 5)


def test_sequences_count_records_per_partition() -> None:
    made = sequences()
    found = sent(made, batch(2), batch(3), batch(1), batch(4, B), batch(1, B))
    assert [sequence for _, sequence in found] == [0, 2, 5, 0, 4]


def test_sequences_start_again_behind_the_last() -> None:
    made = started()
    made._partitions[A].next_sequence = 2**31 - 1
    assert [sequence for _, sequence in sent(made, batch(3), batch(1))] == [2**31 - 1, 2]


def test_a_retried_batch_keeps_its_sequence() -> None:
    made, first = sequences(), batch()
    before = sent(made, first)
    assert sent(made, first) == before


def test_the_first_batch_of_a_partition_is_sent_alone() -> None:
    made, first, second = sequences(), batch(), batch()
    sent(made, first)
    assert not made.may_send(second, 1, 5)
    made.delivered(first)
    assert made.may_send(second, 4, 5)
    assert not made.may_send(second, 5, 5)


def test_retries_go_one_at_a_time_in_order() -> None:
    made, first, second = started(), batch(), batch()
    sent(made, first, second)
    assert not made.may_send(first, 1, 5), "the second is still under way"
    assert made.may_send(first, 0, 5)
    assert not made.may_send(second, 0, 5), "the first is not through"
    made.delivered(first)
    assert made.may_send(second, 0, 5)


def test_a_duplicate_was_delivered_before() -> None:
    made, first = sequences(), batch()
    sent(made, first)
    assert made.judge(first, ErrorCode.DUPLICATE_SEQUENCE_NUMBER) is Decision.DELIVERED


def test_a_batch_that_overtook_a_failed_one_is_sent_again_as_it_is() -> None:
    made, first, second = started(), batch(), batch()
    sent(made, first, second)
    assert made.judge(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is Decision.RETRY
    made.delivered(first)
    sent(made, second)
    assert (second.identity, second.base_sequence) == ((50, 0), 4)


def test_a_broker_that_lost_track_makes_the_partition_start_over_with_a_new_epoch() -> None:
    for code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
        made, first, second = started(), batch(), batch(3)
        sent(made, first, second)
        assert made.judge(first, code) is Decision.RETRY
        assert not made.may_send(first, 1, 5), "not before the answers to the old identity are in"
        assert made.may_send(first, 0, 5)
        sent(made, first)
        assert made.identity == Identity(50, 1)
        assert [(each.identity, each.base_sequence) for each in (first, second)] == [((50, 1), 0), ((50, 1), 2)]
        assert sent(made, batch(1)) == [((50, 1), 5)]


def test_a_batch_that_failed_for_good_leaves_no_gap() -> None:
    made, first, second = started(), batch(), batch()
    sent(made, first, second)
    made.failed(first)
    assert not made.may_send(second, 1, 5)
    sent(made, second)
    assert (second.identity, second.base_sequence) == ((50, 1), 0)


def test_a_batch_that_was_never_sent_leaves_no_trace() -> None:
    made = started()
    made.failed(batch())
    assert sent(made, batch()) == [((50, 0), 2)]


def test_other_partitions_take_the_new_epoch_when_they_have_nothing_under_way() -> None:
    made = started()
    other, lost = batch(2, B), batch()
    sent(made, other, lost)
    made.failed(lost)
    sent(made, batch())
    assert made.identity == Identity(50, 1)
    assert not made.may_send(batch(1, B), 1, 5)
    made.delivered(other)
    assert made.may_send(batch(1, B), 0, 5)
    assert sent(made, batch(1, B)) == [((50, 1), 0)]


def test_used_up_epochs_ask_for_a_new_id() -> None:
    made = Sequences()
    made.identified(50, LAST_EPOCH)
    first, second = batch(), batch()
    sent(made, first, second)
    assert not made.check_epochs()
    made.failed(first)
    assert made.check_epochs()
    assert made.needs_identity
    made.identified(51, 0)
    sent(made, second)
    assert (second.identity, second.base_sequence) == ((51, 0), 0)


def test_a_split_batch_keeps_the_sequences() -> None:
    made, whole = started(), batch(5)
    sent(made, whole)
    whole.sealed(0)  # type: ignore[arg-type]
    halves = whole.split(0)
    made.replace(whole, halves)
    assert [(each.base_sequence, each.count) for each in halves] == [(2, 2), (4, 3)]
    assert made.may_send(halves[0], 0, 5)
    assert not made.may_send(halves[1], 0, 5)
    made.delivered(halves[0])
    assert made.may_send(halves[1], 0, 5)


def test_other_errors_are_no_matter_of_sequences() -> None:
    made, first = sequences(), batch()
    sent(made, first)
    assert made.judge(first, ErrorCode.NOT_LEADER_OR_FOLLOWER) is Decision.NOT_OURS
    assert made.judge(first, ErrorCode.TOPIC_AUTHORIZATION_FAILED) is Decision.NOT_OURS


class Log:
    """A partition leader's rule for idempotent producers, as Kafka has it."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.epoch = -1
        self.next = 0
        self.seen: dict[tuple[int, int], None] = {}

    def append(self, made: ProducerBatch, number: int) -> ErrorCode:
        _, epoch = made.identity
        if epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (epoch, made.base_sequence) in self.seen:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if epoch > self.epoch and self.epoch >= 0:
            if made.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif self.epoch >= 0 and made.base_sequence != self.next:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.epoch, self.next = epoch, made.base_sequence + made.count
        self.seen[epoch, made.base_sequence] = None
        self.stored.append(number)
        return ErrorCode.NONE


@given(st.lists(st.sampled_from(["send", "store", "answer", "lose_request", "lose_answer", "give_up"]), max_size=200))
def test_records_are_stored_once_and_in_order_whatever_is_lost(steps: list[str]) -> None:
    """Batches, a network that loses requests and answers, and a leader: each batch at most once, in order."""
    made, log = sequences(), Log()
    waiting: list[ProducerBatch] = [batch(1 + n % 3) for n in range(12)]
    numbers = {each: number for number, each in enumerate(waiting)}
    flying: list[tuple[ProducerBatch, ErrorCode | None]] = []
    delivered: list[int] = []
    given_up: set[int] = set()

    def back(each: ProducerBatch) -> None:
        waiting.append(each)
        waiting.sort(key=numbers.__getitem__)

    for step in [*steps, *["send", "store", "answer"] * 60]:
        if step == "send" and waiting and made.may_send(waiting[0], len(flying), 5):
            each = waiting.pop(0)
            made.assign(each)
            flying.append((each, None))
        elif step == "store":
            for place, (each, answer) in enumerate(flying):
                if answer is None:
                    flying[place] = (each, log.append(each, numbers[each]))
                    break
        elif step in ("answer", "lose_answer") and flying and flying[0][1] is not None:
            each, code = flying.pop(0)
            assert code is not None
            if step == "lose_answer":
                # The connection is gone, and with it everything behind.
                for other in [each, *(pair[0] for pair in flying)]:
                    back(other)
                flying.clear()
            elif code is ErrorCode.NONE or made.judge(each, code) is Decision.DELIVERED:
                made.delivered(each)
                delivered.append(numbers[each])
            else:
                back(each)
        elif step == "lose_request" and flying and flying[-1][1] is None:
            back(flying.pop()[0])
        elif step == "give_up" and waiting and len(given_up) < 3:
            each = waiting.pop(0)
            made.failed(each)
            given_up.add(numbers[each])
    assert len(set(log.stored)) == len(log.stored)
    assert log.stored == sorted(log.stored)
    assert set(delivered) <= set(log.stored)
    assert set(delivered) | given_up == set(numbers.values())

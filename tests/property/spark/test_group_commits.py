"""Committers of one group in every order: the rules of ``spark.read.group_commits`` against what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seamark.client.records import Offset
from seamark.spark.read.group_commits import Decision, Left, commit_metadata, decide, read_mark
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets
from seamark.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Committer:
    """A source, or a listener, of one run of a query; it reads and writes the group in two steps."""

    def __init__(self, group: dict[TopicPartition, Offset], query: str) -> None:
        self.group = group
        self.query = query
        self.finished = 0
        self.left: dict[TopicPartition, Left] = {}
        self.decision: Decision | None = None

    def restart(self) -> None:
        self.left, self.decision = {}, None

    def read(self) -> None:
        topics = {"orders": TopicOffsets("id", {0: self.finished}, {0: 0})}
        self.decision = decide(SourceOffsets(topics, self.query, 0, "g"), self.group, self.left, 0)

    def write(self) -> None:
        if self.decision is None:
            return
        self.left |= self.decision.agreed
        for partition, offset in self.decision.due.items():
            self.group[partition] = Offset(offset, commit_metadata(self.query, self.query, 0, "id"))
            self.left[partition] = Left(offset, 0)
        self.decision = None

    def commit(self) -> Decision:
        self.read()
        decision = self.decision
        assert decision is not None
        self.write()
        return decision


steps = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("somebody"), st.just(0), st.integers(0, 40)),
        st.tuples(st.just("deleted"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def number(group: dict[TopicPartition, Offset]) -> int:
    return group[ORDERS].offset if ORDERS in group else -1


@given(steps)
def test_no_query_moves_a_group_back_or_writes_over_somebody_elses_move(steps):
    group: dict[TopicPartition, Offset] = {}
    queries = [Committer(group, f"q{index}") for index in range(3)]
    # What each run has agreed with: its own last commit, or what it found without committing.
    known: list[int | None] = [None] * 3
    for step, index, amount in steps:
        query = queries[index]
        if step == "somebody":
            group[ORDERS] = Offset(amount)
        elif step == "deleted":
            group.clear()
        else:
            if step == "restart":
                query.restart()
                known[index] = None
                # The checkpoint may be an older one, put back by hand.
                query.finished = max(0, query.finished - amount)
            else:
                query.finished += amount
            before = number(group)
            source = read_mark(group[ORDERS].metadata).source if before >= 0 else ""
            decision = query.commit()
            after = number(group)
            assert after >= before
            assert after in (before, query.finished)
            has_moved = known[index] is not None and before not in (-1, known[index])
            if has_moved and source != query.query and (source or before != query.finished):
                assert decision.conflicts == (ORDERS,)
                assert after == before
            if not decision.conflicts:
                known[index] = after


@given(steps)
def test_a_query_that_is_left_alone_with_its_group_is_told_to_it_after_a_restart(steps):
    group: dict[TopicPartition, Offset] = {}
    queries = [Committer(group, f"q{index}") for index in range(3)]
    for step, index, amount in steps:
        if step == "somebody":
            group[ORDERS] = Offset(amount)
        elif step == "batch":
            queries[index].finished += amount
            queries[index].commit()
    last = queries[0]
    last.restart()
    for _ in range(3):
        last.finished = max(last.finished, number(group)) + 1
        assert not last.commit().conflicts
        assert number(group) == last.finished


@given(
    st.lists(
        st.tuples(st.sampled_from(["source", "listener"]), st.sampled_from(["batch", "read", "write"])), max_size=60
    )
)
def test_however_source_and_listener_of_a_query_interleave_a_look_puts_the_group_right(steps):
    """On two hosts, where no lock keeps one from writing between the other's read and write."""
    group: dict[TopicPartition, Offset] = {}
    both = {name: Committer(group, "q") for name in ("source", "listener")}
    source = both["source"]
    for name, step in steps:
        if step == "batch":
            source.finished += 3
        elif step == "read":
            # The listener hears of batches later than the source.
            both["listener"].finished = max(both["listener"].finished, source.finished - 3)
            both[name].read()
        else:
            both[name].write()
    for each in both.values():
        each.write()

    assert not source.commit().conflicts
    assert number(group) == source.finished

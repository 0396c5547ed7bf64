"""The frontier as the engine moves it, against a naive model that reads the same log and forgets nothing.

The log has aborted transactions, markers, compaction, retention and ends that are cut off; the reader is rewound,
loses the partition and gets it back from what it committed.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import Committed, Polled
from seamark.parallel.core.work import CommitOffsets, StartCall
from seamark.parallel.settings import Commit, Order, Retry, Settings
from seamark.simulation.parallel.log import PartitionLog
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import decode

P0 = TopicPartition("orders", 0)


class NaiveReader:
    """Every offset that was ever polled in this stay, with whether it is over."""

    def __init__(self, position, known, known_epoch):
        self.position = position
        self.known = known
        self.known_epoch = known_epoch
        self.is_over = {}

    def poll(self, records, position):
        if not records:
            self.position = max(self.position, position)
            return
        offsets = [record.offset for record in records]
        if offsets[0] < self.position:
            # What stands below goes on; what comes again is to be done again.
            self.is_over = {each: over for each, over in self.is_over.items() if each < offsets[0]}
            self.known = set()
        for record in records:
            if record.leader_epoch > self.known_epoch:
                # It took the place of what the map speaks of, and so did all behind it.
                self.known = {each for each in self.known if each < record.offset}
            self.is_over[record.offset] = record.offset in self.known
        self.position = max(position, offsets[-1] + 1)

    def frontier(self):
        return min((offset for offset, over in self.is_over.items() if not over), default=self.position)


class FrontierOverALog(RuleBasedStateMachine):
    @initialize(start=st.integers(0, 40), limit=st.sampled_from([0, 20, 126, 4096]))
    def begin(self, start, limit):
        self.log = PartitionLog(P0, start)
        self.now = 0.0
        self.settings = Settings(
            order=Order.NONE,
            concurrency=1000,
            done_ahead=limit,
            retry=Retry(attempts=10_000, delay=0.001),
            commit=Commit(interval=1.0),
        )
        self.committed = Committed(-1)
        # Whatever was over once, by record: a commit may pass nothing else.
        self.over = set()
        self.assign()

    def assign(self):
        self.engine = Engine(self.settings, self.now, chance=lambda: 0.0)
        self.calls = []
        self.late = []
        self.position = max(self.log.still_there(self.committed.offset, self.committed.leader_epoch), 0)
        known = (
            set(decode(self.committed.metadata, self.committed.offset) or ()) if self.committed.offset >= 0 else set()
        )
        self.model = NaiveReader(self.committed.offset, known, self.committed.leader_epoch)
        self.perform(self.engine.assigned({P0: self.committed}, self.now))

    def perform(self, actions):
        for action in actions:
            if isinstance(action, StartCall):
                self.calls.append(action)
            elif isinstance(action, CommitOffsets):
                self.commit(action)

    def commit(self, action):
        offset, metadata, epoch = action.offsets[P0]
        assert offset == self.model.frontier()
        for record in self.log.below(self.log.still_there(offset, epoch)):
            assert record in self.over
        for each in decode(metadata, offset) or ():
            assert self.model.is_over.get(each, True)
            found = self.log.find(each)
            assert found is None or found.leader_epoch > epoch or found in self.over
        self.committed = Committed(offset, metadata, epoch)
        self.perform(self.engine.commit_finished(action.ticket, {P0: None}, self.now))

    @rule(gaps=st.lists(st.integers(0, 3), min_size=1, max_size=8), marker=st.integers(0, 2))
    def write(self, gaps, marker):
        for gap in gaps:
            self.log.append_gap(gap)
            self.log.append(b"k%d" % (gap % 3), b"v")
        self.log.append_gap(marker)

    @rule(limit=st.integers(1, 9), says_position=st.booleans())
    def poll(self, limit, says_position):
        position = min(self.position, self.log.log_end)
        records, following = self.log.read(position, limit)
        self.position = following
        shown = following if says_position or not records else -1
        self.model.poll(records, shown)
        self.perform(self.engine.polled(Polled(P0, records, shown), self.now))

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 10_000), is_well=st.booleans())
    def finish(self, pick, is_well):
        call = self.calls.pop(pick % len(self.calls))
        [work] = call.works
        if not is_well:
            self.perform(self.engine.failed(call, ValueError("no"), self.now))
            return
        self.over.add(work.record)
        if self.engine.assignments.is_live(work):
            self.model.is_over[work.offset] = True
        self.perform(self.engine.succeeded(call, self.now))

    @rule()
    def time_passes(self):
        self.now += 1.0
        self.perform(self.engine.tick(self.now))

    @rule(back=st.integers(1, 12))
    def the_log_is_cut(self, back):
        self.log.cut(max(self.log.log_start, self.log.log_end - back))
        self.position = min(self.position, self.log.log_end)

    @rule(random=st.randoms(use_true_random=False))
    def the_log_is_compacted(self, random):
        self.log.compact(random)

    @rule(forward=st.integers(1, 10))
    def old_records_are_deleted(self, forward):
        self.log.delete_before(self.log.log_start + forward)

    @rule(back=st.integers(1, 12))
    def somebody_seeks_back(self, back):
        self.position = max(self.log.log_start, self.position - back)

    @rule(is_orderly=st.booleans())
    def the_partition_goes_and_comes_back(self, is_orderly):
        if is_orderly:
            self.perform(self.engine.revoked([P0], self.now))
            self.perform(self.engine.release([P0], self.now))
        self.assign()

    @invariant()
    def the_frontier_is_the_model_s(self):
        frontier = self.engine.committer.frontiers()[P0]
        assert frontier.frontier == self.model.frontier()
        assert frontier.offsets() == sorted(offset for offset, over in self.model.is_over.items() if not over)
        assert self.engine.budget.held_records <= len(frontier) + len(self.calls)


# covers: H2, H3, H4, H20, H22, H24, I1
FrontierOverALog.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_frontier_over_a_log_agrees_with_a_naive_reader = FrontierOverALog.TestCase

"""The frontier against a naive model: gaps, aborted transactions, compaction, truncation, rewinds, re-assignment."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seamark.parallel.core.frontier import Frontier
from seamark.wire.offsets.done_ahead import DoneAhead, decode, encode


class NaiveFrontier:
    """Keeps every offset for ever and looks at all of them for every answer."""

    def __init__(self, term, position, known=()):
        self.start(term, position, known)
        self.late = 0

    def start(self, term, position, known=()):
        self.term, self.position, self.known = term, position, set(known)
        self.polled = {}

    def frontier(self):
        return min((offset for offset, is_done in self.polled.items() if not is_done), default=self.position)

    def is_over(self, offset):
        """Whether a restart may leave the offset out."""
        if offset < self.position:
            return self.polled.get(offset, True)
        return offset in self.known


class FrontierMachine(RuleBasedStateMachine):
    """A log with gaps, read by consumers that come and go; the truth about every record is kept beside it."""

    @initialize(position=st.integers(0, 50))
    def begin(self, position):
        self.frontier = Frontier(1, position)
        self.model = NaiveFrontier(1, position)
        # Results that handlers still owe, of any term.
        self.owed = []

    @rule(gaps=st.lists(st.integers(0, 3), min_size=1, max_size=12), tail=st.integers(0, 3), by_one=st.booleans())
    def poll(self, gaps, tail, by_one):
        """Gaps of aborted transactions and compaction lie before records, and a marker behind the last."""
        term, offsets, offset = self.model.term, [], self.model.position
        for gap in gaps:
            offsets.append(offset + gap)
            offset += gap + 1
        expected = [each for each in offsets if each not in self.model.known]
        if by_one:
            assert [each for each in offsets if self.frontier.take(term, each, each)] == expected
        else:
            assert self.frontier.take_all(term, offsets, offsets) == len(expected)
        self.frontier.advance(term, offset + tail)
        self.model.polled.update({each: each in self.model.known for each in offsets})
        self.model.position = offset + tail
        self.owed += [(term, each) for each in expected]

    @precondition(lambda self: self.owed)
    @rule(pick=st.integers(0, 10_000))
    def finish(self, pick):
        term, offset = self.owed.pop(pick % len(self.owed))
        is_present = term == self.model.term
        assert self.frontier.done(term, offset) == is_present
        if is_present:
            self.model.polled[offset] = True
        else:
            self.model.late += 1

    @precondition(lambda self: self.owed)
    @rule(pick=st.integers(0, 10_000))
    def finish_twice(self, pick):
        """A result that is reported again, after its first report or before: at most the first counts."""
        term, offset = self.owed[pick % len(self.owed)]
        is_present = term == self.model.term
        self.frontier.done(term, offset)
        assert self.frontier.done(term, offset) is False
        if is_present:
            self.model.polled[offset] = True
            self.owed.remove((term, offset))
        else:
            self.model.late += 2

    @rule(back=st.integers(0, 30))
    def seek_back_or_truncate(self, back):
        self.model.start(self.model.term + 1, max(0, self.model.position - back))
        self.frontier.rewind(self.model.term, self.model.position)

    @rule(forward=st.integers(1, 30))
    def log_start_moves_past_the_position(self, forward):
        self.frontier.advance(self.model.term, self.model.position + forward)
        self.model.position += forward

    @rule(length=st.sampled_from([0, 12, 126, 4096]))
    def commit_and_hand_over(self, length):
        """The next owner starts from the commit and its metadata, in a new term."""
        committed = self.frontier.frontier
        text = encode(committed, self.frontier.done_ahead(), length).text if length else ""
        known = decode(text, committed) or DoneAhead(committed)
        for offset in known:
            assert self.model.is_over(offset), "the map says done for what was not"
        self.model.start(self.model.term + 1, committed, known)
        late = self.frontier.late
        self.frontier = Frontier(self.model.term, committed, known)
        self.frontier.late = late

    @invariant()
    def frontier_agrees_with_the_model(self):
        frontier, model = self.frontier, self.model
        assert frontier.frontier == model.frontier()
        assert frontier.position == model.position
        assert frontier.late == model.late
        assert frontier.offsets() == [offset for offset, is_done in model.polled.items() if not is_done]
        ahead = frontier.done_ahead()
        stop = max([model.position, *(offset + 1 for offset in model.known)])
        over = {offset for offset in range(model.frontier() + 1, stop) if model.is_over(offset)}
        assert set(ahead) == over


FrontierMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_frontier_agrees_with_a_naive_model = FrontierMachine.TestCase


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=200), st.randoms(use_true_random=False))
def test_any_order_of_completion_ends_behind_everything(steps, random):
    # covers: H2, H20, H22
    offsets = [sum(steps[: index + 1]) for index in range(len(steps))]
    frontier = Frontier(1, 0)
    frontier.take_all(1, offsets)
    left = set(offsets)
    for offset in random.sample(offsets, len(offsets)):
        frontier.done(1, offset)
        left.remove(offset)
        assert frontier.frontier == min(left, default=offsets[-1] + 1)
        assert len(frontier) == len(left)

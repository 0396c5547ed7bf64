"""The committer against the algorithm as the requirements tell it, over random interleavings, keys and terms."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.parallel.core.committer import OffsetCommitter


class ToldAlgorithm:
    """Two sets per (key, term), and the phases in the order in which they are written down."""

    def __init__(self):
        self.in_flight, self.highest, self.terms = set(), {}, {}
        self.in_flight_queue, self.committed_queue = [], []

    def run(self):
        done, self.committed_queue = self.committed_queue, []
        entries, self.in_flight_queue = self.in_flight_queue, []
        for entry in entries:
            if entry[0] == "assigned":
                _, key, term = entry
                self.terms[key] = term
                self.in_flight = {each for each in self.in_flight if each[0] != key}
                self.highest.pop(key, None)
            elif self.terms.get(entry[1]) == entry[2]:
                self.in_flight.add(entry[1:])
        for key, term, offset in done:
            if self.terms.get(key) != term:
                continue
            self.in_flight.discard((key, term, offset))
            self.highest[key] = max(self.highest.get(key, 0), offset + 1)
        published = {}
        for key in self.terms:
            smallest = min((offset for other, _, offset in self.in_flight if other == key), default=None)
            candidates = [each for each in (self.highest.get(key), smallest) if each is not None]
            if candidates:
                published[key] = min(candidates)
            if smallest is None:
                self.highest.pop(key, None)
        return published


@settings(max_examples=150, deadline=None)
@given(seed=st.randoms(use_true_random=False), steps=st.integers(1, 120))
def test_every_run_publishes_what_the_told_algorithm_publishes(seed, steps):
    # covers: H5, H6, H7, H8, H9, H10, H11, H12, H13, H18, H20, H23, H24
    random = seed
    committer, told = OffsetCommitter(), ToldAlgorithm()
    keys = ["a", "b"]
    term = dict.fromkeys(keys, 0)
    position = dict.fromkeys(keys, 0)
    owed = []
    obsolete = 0
    last = {}

    def assign(key):
        term[key] += 1
        position[key] = random.randrange(5)
        last.pop(key, None)
        committer.assigned(key, term[key], position[key])
        told.in_flight_queue.append(("assigned", key, term[key]))

    for key in keys:
        assign(key)
    for _ in range(steps):
        key = random.choice(keys)
        action = random.choice(
            ["poll", "poll", "done", "done", "done", "run", "reassign" if random.random() < 0.2 else "run"]
        )
        if action == "poll":
            offsets = range(position[key], position[key] + random.randrange(1, 5))
            position[key] = offsets[-1] + 1
            committer.in_flight(key, term[key], offsets)
            for offset in offsets:
                told.in_flight_queue.append(("in flight", key, term[key], offset))
                owed.append((key, term[key], offset))
        elif action == "done" and owed:
            name, its_term, offset = owed.pop(random.randrange(len(owed)))
            committer.done(name, its_term, [offset])
            told.committed_queue.append((name, its_term, offset))
            obsolete += its_term != term[name]
        elif action == "reassign":
            assign(key)
        elif action == "run":
            published = {decision.key: decision.offset for decision in committer.run()}
            assert published == told.run()
            for name, offset in published.items():
                assert offset >= last.get(name, 0), "a committed offset moved backwards within a term"
                last[name] = offset
    committer.run()
    assert committer.metrics().obsolete_count == obsolete

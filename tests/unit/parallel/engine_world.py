"""A group of engines over a log with gaps, driven from one seed, with the truth about every record kept beside them.

Members poll, run, fail, commit, lose and get partitions, crash and come back; every commit and every start of a handler
is checked against the truth when it happens.
"""

from collections import Counter
from random import Random
from types import SimpleNamespace

from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import Committed, MetadataTooLong, Polled
from seamark.parallel.core.work import (
    CommitOffsets,
    PausePartitions,
    RecordState,
    ResumePartitions,
    StartCall,
    Stopped,
    WriteDeadLetter,
)
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import decode


class Assignment:
    """What a member may run of a partition: from ``start``, without what the commit's map said."""

    def __init__(self, start, known):
        self.start = start
        self.known = known
        self.done = set()


class Member:
    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.engine = Engine(world.settings, world.now, chance=world.random.random)
        self.calls = []
        self.positions = {}
        self.paused = set()
        self.assignments = {}
        self.commits = []
        self.dead_letters = []
        self.is_stopped = False
        self.stop_reason = None

    def perform(self, actions):
        for action in actions:
            match action:
                case StartCall():
                    self.world.check_start(self, action)
                    self.calls.append(action)
                case PausePartitions(partitions):
                    self.paused |= set(partitions)
                case ResumePartitions(partitions):
                    self.paused -= set(partitions)
                case CommitOffsets(must_wait=True):
                    # The port keeps the order of commits.
                    while self.commits:
                        self.answer_commit(self.commits.pop(0))
                    self.answer_commit(action)
                case CommitOffsets():
                    self.commits.append(action)
                case WriteDeadLetter():
                    self.dead_letters.append(action)
                case Stopped(reason):
                    self.is_stopped, self.stop_reason = True, reason

    def answer_commit(self, commit):
        results = {}
        for partition, to_commit in commit.offsets.items():
            if self.world.owner.get(partition) is not self:
                results[partition] = RuntimeError("fenced")
            elif len(to_commit.metadata) > self.world.metadata_limit:
                results[partition] = MetadataTooLong("too long")
            elif self.world.random.random() < self.world.commit_failures:
                if self.world.random.random() < 0.5:
                    results[partition] = RuntimeError("not now")
            else:
                self.world.commit(partition, to_commit)
                results[partition] = None
        self.perform(self.engine.commit_finished(commit.ticket, results, self.world.now))


class World:
    def __init__(
        self, seed, settings, *, partitions=3, records=60, keys=8, commit_failures=0.1, poison=0.0, failures=0.1
    ):
        self.random = Random(seed)
        self.settings = settings
        self.now = 100.0
        self.metadata_limit = self.random.choice([4096, 4096, 200])
        self.commit_failures = commit_failures
        self.failures = failures
        self.partitions = [TopicPartition("t", number) for number in range(partitions)]
        self.log = {partition: self._make_log(records, keys) for partition in self.partitions}
        self.log_end = {
            partition: (log[-1].offset + 1 if log else 0) + self.random.randrange(3)
            for partition, log in self.log.items()
        }
        self.poison = {
            (partition, record.offset)
            for partition, log in self.log.items()
            for record in log
            if self.random.random() < poison
        }
        self.over = {partition: set() for partition in self.partitions}
        self.committed = {partition: Committed(-1) for partition in self.partitions}
        self.owner = {}
        self.runs = Counter()
        self.given_up = set()
        self.seen = Counter()
        self.members = [Member(self, 0), Member(self, 1)]
        for partition in self.partitions:
            self.give(self.random.choice(self.members), partition)

    def _make_log(self, records, keys):
        offset, log = self.random.randrange(5), []
        has_gaps = self.random.random() < 0.7
        for _ in range(records):
            key = self.random.randrange(keys + 1) or None
            record = SimpleNamespace(
                offset=offset, key=key, value=b"v" * 20, headers=(), timestamp_ms=0, leader_epoch=0
            )
            log.append(record)
            offset += 1 + (self.random.choice([0, 0, 1, 3]) if has_gaps else 0)
        return log

    # What the broker and the group do.

    def give(self, member, partition):
        committed = self.committed[partition]
        self.owner[partition] = member
        start = max(committed.offset, 0)
        member.assignments[partition] = Assignment(start, decode(committed.metadata, committed.offset) or ())
        member.positions[partition] = start
        member.paused.discard(partition)
        member.perform(member.engine.assigned({partition: committed}, self.now))

    def commit(self, partition, to_commit):
        for record in self.log[partition]:
            if record.offset < to_commit.offset:
                assert record.offset in self.over[partition], (
                    f"{partition} committed {to_commit.offset} past {record.offset}"
                )
        for offset in decode(to_commit.metadata, to_commit.offset) or ():
            assert offset in self.over[partition] or all(record.offset != offset for record in self.log[partition])
        assert to_commit.offset <= self.log_end[partition]
        self.committed[partition] = Committed(*to_commit)
        self.seen["commits"] += 1

    def check_start(self, member, call):
        engine = member.engine
        assert len(member.calls) < self.settings.concurrency
        running = {
            (work.partition, work.lane) for other in member.calls for work in other.works if work.lane is not None
        }
        # Records of one key may follow each other inside one call.
        previous, first = {}, {}
        for work in call.works:
            partition, offset = work.partition, work.offset
            assert engine.assignments.terms().get(partition) == work.term
            assignment = member.assignments[partition]
            assert offset >= assignment.start
            assert offset not in assignment.known, "a record of the done-ahead map is run again"
            assert offset not in assignment.done, "a record is run again without need"
            if work.lane is not None:
                assert (partition, work.lane) not in running, "two calls for one key"
                assert offset > previous.get((partition, work.lane), -1)
                before = first.setdefault((partition, work.lane), offset)
                for record in self.log[partition]:
                    if record.offset < before and record.key == work.record.key:
                        assert record.offset in self.over[partition], "a key's order is broken"
                previous[partition, work.lane] = offset
            self.runs[partition, offset] += 1

    # What happens by chance.

    def step(self):
        choices = [
            (self.poll, 6),
            (self.finish, 10),
            (self.pass_time, 4),
            (self.answer, 4),
            (self.write_dead_letter, 4),
        ]
        choices += [(self.move, 1), (self.lose, 0.4), (self.crash, 0.4), (self.seek_back, 0.3), (self.stop, 0.2)]
        actions, weights = zip(*choices, strict=True)
        self.random.choices(actions, weights)[0](self.random.choice(self.members))
        self.replace_stopped()

    def replace_stopped(self):
        for index, member in enumerate(self.members):
            if member.is_stopped:
                self.seen["stopped"] += 1
                self.restart(index)

    def restart(self, index):
        old = self.members[index]
        owned = [partition for partition, owner in self.owner.items() if owner is old]
        self.members[index] = Member(self, old.name)
        for partition in owned:
            self.give(self.members[index], partition)

    def poll(self, member):
        for partition, position in list(member.positions.items()):
            if partition in member.paused or self.owner.get(partition) is not member:
                continue
            found = [record for record in self.log[partition] if record.offset >= position]
            found = found[: self.random.randrange(1, 12)]
            if not found:
                member.perform(member.engine.polled(Polled(partition, [], self.log_end[partition]), self.now))
                continue
            position = found[-1].offset + 1
            member.positions[partition] = position
            shown = position if self.random.random() < 0.5 else -1
            member.perform(member.engine.polled(Polled(TopicPartition(*partition), found, shown), self.now))

    def finish(self, member):
        if not member.calls:
            return
        call = member.calls.pop(self.random.randrange(len(member.calls)))
        is_poisoned = any((work.partition, work.offset) in self.poison for work in call.works)
        if is_poisoned or self.random.random() < self.failures:
            actions = member.engine.failed(call, ValueError("no"), self.now)
            for work in call.works:
                if work.state is RecordState.OVER:
                    self.over[work.partition].add(work.offset)
            member.perform(actions)
            return
        for work in call.works:
            self.over[work.partition].add(work.offset)
            if member.engine.assignments.terms().get(work.partition) == work.term:
                member.assignments[work.partition].done.add(work.offset)
        member.perform(member.engine.succeeded(call, self.now))

    def write_dead_letter(self, member):
        if not member.dead_letters:
            return
        letter = member.dead_letters.pop(self.random.randrange(len(member.dead_letters)))
        error = RuntimeError("refused") if self.random.random() < 0.05 else None
        if error is None:
            self.over[letter.work.partition].add(letter.work.offset)
            self.given_up.add((letter.work.partition, letter.work.offset))
        member.perform(member.engine.dead_letter_written(letter.work, error, self.now))

    def answer(self, member):
        if member.commits:
            member.answer_commit(member.commits.pop(0))

    def pass_time(self, member):
        self.now += self.random.choice([0.01, 0.1, 0.5, 2.0])
        member.perform(member.engine.tick(self.now))

    def take_away(self, member, partition):
        """Revoke with a drain that may or may not reach its end."""
        member.perform(member.engine.revoked([partition], self.now))
        for _ in range(self.random.randrange(12)):
            if member.engine.is_drained([partition]):
                break
            self.finish(member)
            self.write_dead_letter(member)
        member.perform(member.engine.release([partition], self.now))
        self.forget(member, partition)

    def forget(self, member, partition):
        del self.owner[partition]
        member.positions.pop(partition)
        member.paused.discard(partition)

    def move(self, member):
        owned = [partition for partition, owner in self.owner.items() if owner is member]
        if owned:
            partition = self.random.choice(owned)
            self.take_away(member, partition)
            self.give(self.random.choice(self.members), partition)
            self.seen["moved"] += 1

    def lose(self, member):
        owned = [partition for partition, owner in self.owner.items() if owner is member]
        if owned:
            partition = self.random.choice(owned)
            other = self.members[1 - member.name]
            if self.random.random() < 0.5:
                # The new owner starts before the old one hears of it.
                self.give(other, partition)
                self.finish(member)
                self.answer(member)
                member.perform(member.engine.lost([partition], self.now))
                member.positions.pop(partition)
            else:
                member.perform(member.engine.lost([partition], self.now))
                self.forget(member, partition)
                self.give(self.random.choice(self.members), partition)
            self.seen["lost"] += 1

    def crash(self, member):
        self.restart(self.members.index(member))
        self.seen["crashed"] += 1

    def seek_back(self, member):
        owned = [partition for partition, owner in self.owner.items() if owner is member]
        if owned:
            partition = self.random.choice(owned)
            position = max(0, member.positions[partition] - self.random.randrange(1, 10))
            if any(position <= record.offset < member.positions[partition] for record in self.log[partition]):
                member.positions[partition] = position
                # What lies before the sought offset goes on as if nothing had happened.
                before = member.assignments[partition]
                known = [each for each in before.known if each < position]
                assignment = member.assignments[partition] = Assignment(min(before.start, position), known)
                assignment.done = {offset for offset in before.done if offset < position}
                found = [record for record in self.log[partition] if record.offset >= position][:1]
                member.positions[partition] = found[0].offset + 1
                member.perform(member.engine.polled(Polled(TopicPartition(*partition), found, -1), self.now))
                self.seen["sought"] += 1

    def stop(self, member):
        member.perform(member.engine.stop(self.now))
        while not member.is_stopped:
            self.finish(member)
            self.write_dead_letter(member)
            self.answer(member)
            self.now += 1.0
            member.perform(member.engine.tick(self.now))
        assert member.engine.is_over

    def settle(self):
        """No more accidents: everything that is left must come to its end."""
        self.commit_failures = self.failures = 0.0
        for _ in range(6_000):
            for member in list(self.members):
                self.poll(member)
                self.finish(member)
                self.write_dead_letter(member)
                self.answer(member)
                self.now += 0.2
                member.perform(member.engine.tick(self.now))
            self.replace_stopped()
            if self.is_settled():
                return
        raise AssertionError(self.describe())

    def is_settled(self):
        return all(
            self.committed[partition].offset == self.log_end[partition]
            or (not self.log[partition] and self.committed[partition].offset == -1)
            for partition in self.partitions
        ) and not any(member.engine.budget.held_records for member in self.members)

    def describe(self):
        lines = [
            f"{partition}: {self.committed[partition]} of {self.log_end[partition]}" for partition in self.partitions
        ]
        for member in self.members:
            lines.append(
                f"member {member.name}: {member.engine.counters.as_dict()} calls={member.calls} paused={member.paused}"
            )
            lines += [str(stall) for stall in member.engine.stalls(self.now, 0)]
        return "\n".join(lines)

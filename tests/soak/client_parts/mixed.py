"""One group of three kinds of clients: ours, confluent-kafka and Kafka's own Java client, coming, leaving and dying.

Each member is a process of its own, so a crash is a crash. Between the events the group must come to rest: stable for
the coordinator, every partition owned by exactly one member, every record that was written read by somebody. Commits
are made on order, and never cover a record that nobody has read. At the end everybody commits, and the committed
offsets are the ends of the partitions.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress

from seamark.client import Admin, Producer
from seamark.client.admin.types import NewTopic
from tests.conformance.clients.program import ClientProgram, ProgramFailed

PARTITIONS = 6
MOST_MEMBERS = 5
SESSION_MS = 3000
REST_SECONDS = 90.0
# Who speaks which assignor; librdkafka has no eager sticky one.
KINDS = {
    "range": ("seamark", "confluent", "java"),
    "roundrobin": ("seamark", "confluent", "java"),
    "cooperative-sticky": ("seamark", "confluent", "java"),
    "sticky": ("seamark", "java"),
}
# What the coordinator must allow for dead members to be missed soon.
SETTINGS = {"group.min.session.timeout.ms": 1000, "group.initial.rebalance.delay.ms": 0}


class Restless(AssertionError):
    """The group did not come to rest, or what it did was wrong."""


class MixedGroup:
    """A topic, a group with one assignor, and the members of the moment; used as a context."""

    def __init__(self, bootstrap: str, strategy: str, rng: random.Random) -> None:
        self._bootstrap = bootstrap
        self._strategy = strategy
        self._rng = rng
        self._name = f"mixed-{strategy}-{rng.randrange(1 << 30)}"
        self._admin = Admin(bootstrap_servers=bootstrap)
        self._producer = Producer(bootstrap_servers=bootstrap)
        self._members: list[tuple[str, ClientProgram]] = []
        # Programs whose member has left; they can be told to join again.
        self._idle: dict[str, list[ClientProgram]] = {}
        self._written = dict.fromkeys(range(PARTITIONS), 0)
        self._read: set[str] = set()
        self.events: dict[str, int] = {}

    def __enter__(self) -> MixedGroup:
        self._admin.create_topics([NewTopic(self._name, PARTITIONS, 1)]).raise_if_failed()
        for kind in KINDS[self._strategy]:
            self._join(kind)
        self.rest()
        return self

    def __exit__(self, *_: object) -> None:
        for _, program in self._members:
            program.kill()
        for programs in self._idle.values():
            for program in programs:
                program.kill()
        self._producer.close()
        self._admin.close()

    @property
    def event_count(self) -> int:
        return sum(self.events.values())

    # events

    def happen(self) -> None:
        """Write something, and let one member come, leave or die."""
        self._write()
        count = len(self._members)
        if self._rng.random() < 0.4:
            self._commit(self._rng.choice(self._members)[1])
        if count < MOST_MEMBERS and (count < 2 or self._rng.random() < 0.5):
            self._join(self._rng.choice(self._missing_kinds()))
        else:
            kind, program = self._members.pop(self._rng.randrange(count))
            self._take(program)
            if self._rng.random() < 0.4:
                self._count(f"{kind} dies")
                program.kill()
            else:
                self._count(f"{kind} leaves")
                program.ask("leave")
                self._idle.setdefault(kind, []).append(program)

    def _missing_kinds(self) -> list[str]:
        """Kinds that the group lacks, so that it stays a mixed one; any kind if it has all of them."""
        present = {kind for kind, _ in self._members}
        kinds = KINDS[self._strategy]
        return [kind for kind in kinds if kind not in present] or list(kinds)

    def _count(self, event: str) -> None:
        self.events[event] = self.events.get(event, 0) + 1

    def _join(self, kind: str) -> None:
        idle = self._idle.get(kind)
        program = idle.pop() if idle else ClientProgram(kind, self._bootstrap)
        self._members.append((kind, program))
        self._count(f"{kind} joins")
        program.ask(
            "join", group=self._name, topic=self._name, assignor=self._strategy, instance=None, session_ms=SESSION_MS
        )

    def _write(self) -> None:
        for partition in range(PARTITIONS):
            for _ in range(self._rng.randint(1, 3)):
                value = f"{partition}:{self._written[partition]}"
                self._producer.send(self._name, value.encode(), partition=partition)
                self._written[partition] += 1
        self._producer.flush(30.0)

    def _take(self, program: ClientProgram) -> list[int]:
        status = program.ask("status")
        self._read |= set(status["read"])
        return list(status["owned"])

    def _commit(self, program: ClientProgram) -> None:
        # Refused while the group rebalances: then nothing was committed.
        with suppress(ProgramFailed):
            program.ask("commit")
        self._take(program)
        self._check_committed()

    # what must be true

    def rest(self) -> None:
        """Wait until the group is stable and shared out, and all that was written is read."""
        end = time.monotonic() + REST_SECONDS
        while (complaint := self._complaint()) is not None:
            if time.monotonic() > end:
                kinds = [kind for kind, _ in self._members]
                raise Restless(f"{self._strategy}, members {kinds}: not within {REST_SECONDS:g} s: {complaint}")
            time.sleep(0.1)
        self._check_committed()

    def _complaint(self) -> str | None:
        found = self._admin.describe_groups([self._name])
        if self._name in found.errors:
            # Before the first member has come.
            return str(found.errors[self._name])
        described = found[self._name]
        if described.state != "Stable" or len(described.members) != len(self._members):
            return f"the coordinator says {described.state} with {len(described.members)} members"
        owned = [self._take(program) for _, program in self._members]
        if sorted(number for each in owned for number in each) != list(range(PARTITIONS)):
            return f"owned are {owned}"
        missing = self._expected() - self._read
        if missing:
            return f"{len(missing)} records were not read, such as {min(missing)}; owned are {owned}"
        return None

    def _expected(self) -> set[str]:
        return {f"{partition}:{n}" for partition, count in self._written.items() for n in range(count)}

    def _committed(self) -> dict[int, int]:
        found = self._admin.list_group_offsets([self._name])[self._name]
        return {partition.partition: offset.offset for partition, offset in found.items()}

    def _check_committed(self) -> None:
        committed = self._committed()
        for _, program in self._members:
            self._take(program)
        for partition, end in committed.items():
            unread = [n for n in range(end) if f"{partition}:{n}" not in self._read]
            if unread:
                raise Restless(
                    f"{self._strategy}: partition {partition} is committed to {end}, unread are {unread[:5]}"
                )

    def finish(self) -> None:
        """Everybody commits what it has read; the group is then at the end of every partition."""
        self.rest()
        # A client whose partitions came and went may know positions of long ago; a new record makes them current.
        self._write()
        self.rest()
        for _, program in self._members:
            program.ask("commit")
        committed = self._committed()
        if committed != self._written:
            raise Restless(f"{self._strategy}: committed are {committed}, written {self._written}")


def run(bootstrap: str, events: int, seed: int, strategies: Sequence[str] = tuple(KINDS)) -> dict[str, object]:
    """So many events over all these assignors; the group comes to rest after one to three of them."""
    rng = random.Random(seed)
    failures: list[str] = []
    happened: dict[str, int] = {}
    rests = 0
    for strategy in strategies:
        group = MixedGroup(bootstrap, strategy, rng)
        try:
            with group:
                while group.event_count < events / len(strategies):
                    for _ in range(rng.randint(1, 3)):
                        group.happen()
                    group.rest()
                    rests += 1
                group.finish()
        except (Restless, ProgramFailed) as failure:
            failures.append(str(failure)[:1000])
        for event, count in group.events.items():
            happened[event] = happened.get(event, 0) + count
    return {
        "ok": not failures and sum(happened.values()) >= events,
        "events": sum(happened.values()),
        "kinds": happened,
        "rests": rests,
        "failures": failures,
    }

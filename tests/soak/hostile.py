"""Ten minutes of everything that hostile clients do, beside programs that check what was acknowledged to them.

Eight hostile processes (``benchmarks/hostile_parts/clients.py``) attack a broker that asks for a login: bad requests in
loops, bombs, slow readers, half requests, connections opened, dropped and hoarded, wrong logins. In the middle fifth
the broker's process may open no more files than it has open. Meanwhile one client commits a hundred times a second,
produces ten records a second and reads them; and one program produces, reads back, commits and reads that back. At the
end the broker is killed and started again.

``ok`` means all of these, and ``failures`` has a sentence for each that does not hold:

- Nothing that was acknowledged is missing or changed: while the attack goes on, after it, and after the restart.
- Bystanders: the p99 of commits stays within five times that without an attack. The time without descriptors is counted
  apart: what is asked then may be refused, and must work again afterwards.
- Memory: within a minute after the attack the broker holds at most 80 MB more than before it.
- The broker never ends by itself, its log stays below 1 MB and has no traceback.
- The attack took place: each kind did what it is for, bombs were stored, and no wrong login was let in.

The bounds on waits and memory are for runs of a minute or more: ``scale`` below a tenth is for trying things out.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.hostile_parts import batches, bystander, cases, clients
from benchmarks.hostile_parts.bystander import Bystander, Latencies
from benchmarks.hostile_parts.login import HONEST, HOSTILE, Address, login_options
from benchmarks.hostile_parts.shapes import LIMIT_BYTES, Shape
from benchmarks.hostile_parts.world import TINY, Size, World, fill
from tests.soak.hostile_parts.checker import PARTITIONS, TOPIC, Books, missing

SECONDS = 600.0
SIZE = Size(topics=200, wide_partitions=100, groups=100, members=100)
MOST_RATIO = 5.0
# What Python's allocator does not give back, and what the attack left in topics and groups.
MOST_KEPT_MB = 80.0
SECONDS_TO_SETTLE = 60.0
MOST_LOG_BYTES = 1_000_000
# Requests that were bad before they were mended, and stay dear: long lists of names, known and unknown.
_WORST = (
    ("FindCoordinator", 6, "coordinator_keys"),
    ("Metadata", 12, "topics"),
    ("OffsetFetch", 8, "groups"),
    ("DescribeGroups", 5, "groups"),
    ("DeleteTopics", 5, "topic_names"),
    ("DescribeConfigs", 4, "resources"),
    ("OffsetCommit", 8, "topics"),
)


@dataclass(frozen=True)
class Strength:
    """How much the hostile clients send at a time."""

    connections: int = clients.CONNECTIONS
    request_bytes: int = LIMIT_BYTES
    bomb_bytes: int = batches.UNFOLDED_BYTES
    bomb_partitions: int = 100


FULL = Strength()
# Of everything a little: all of it happens in a few seconds, on a busy machine too.
SLIGHT = Strength(connections=2, request_bytes=50_000, bomb_bytes=500_000, bomb_partitions=4)


@dataclass
class Outcome:
    """What a run saw."""

    calm: Latencies
    attacked: Latencies
    # While the broker was short of descriptors.
    starved: Latencies
    books: Books
    missing: list[str]
    missing_after_restart: list[str]
    idle_mb: float
    settled_mb: float
    said: str
    attackers: dict[str, Counter[str]]

    def ratio(self) -> float:
        return self.attacked.p99_ms() / self.calm.p99_ms()

    def failures(self) -> list[str]:
        """A sentence for everything that is not as promised, apart from waits and memory."""
        books = self.books
        found = [*books.lost, *self.missing]
        found += [each for seen in (self.attacked, self.starved) for each in seen.lost]
        found += [f"after the restart: {each}" for each in self.missing_after_restart]
        found += [f"after the attack, {each}" for each in books.refused_at_the_end]
        if not books.commits:
            found.append(f"the checking program could not commit: {books.refused[:3]}")
        if len(self.said) > MOST_LOG_BYTES:
            found.append(f"the log has {len(self.said)} bytes")
        if "Traceback" in self.said:
            found.append(f"the log has a traceback: {self.said[self.said.find('Traceback') - 200 :][:1500]}")
        for kind, needed in clients.NEEDED.items():
            done = self.attackers.get(kind, Counter())
            if not done[needed]:
                found.append(f"the attack {kind!r} did not happen: {dict(done)}")
        if let_in := sum(done[clients.LET_IN] for done in self.attackers.values()):
            found.append(f"{let_in} wrong logins were let in")
        return found

    def broken_bounds(self) -> list[str]:
        """The same for waits and memory, which a short run says nothing about."""
        found = []
        if self.ratio() > MOST_RATIO:
            found.append(f"the p99 of commits is {self.ratio():.1f} times that without an attack, not {MOST_RATIO:g}")
        if self.settled_mb - self.idle_mb > MOST_KEPT_MB:
            found.append(
                f"{SECONDS_TO_SETTLE:g} s after the attack the broker holds {self.settled_mb:.0f} MB; it was"
                f" {self.idle_mb:.0f} MB before, and {MOST_KEPT_MB:g} MB more are allowed"
            )
        return found

    def facts(self) -> dict[str, object]:
        books = self.books
        return {
            "bystander_ratio": round(self.ratio(), 2),
            "calm": self.calm.facts(),
            "attacked": self.attacked.facts(),
            "short_of_descriptors": self.starved.facts(),
            "records_checked": sum(map(len, books.records.values())),
            "commits_checked": books.commits,
            "refused": len(books.refused),
            "first_refused": books.refused[:5],
            "longest_round_s": round(books.longest_s, 2),
            "idle_mb": round(self.idle_mb, 1),
            "settled_mb": round(self.settled_mb, 1),
            "log_bytes": len(self.said),
            "attackers": self.attackers,
        }


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    is_short = scale < 0.1
    size, settling, strength = (TINY, 1.0, SLIGHT) if is_short else (SIZE, SECONDS_TO_SETTLE, FULL)
    outcome = attack(max(8.0, SECONDS * scale), size, settling, strength)
    failures = outcome.failures() + ([] if is_short else outcome.broken_bounds())
    told = {"ok": not failures, "failures": failures[:20], **outcome.facts()}
    return {**told, "seconds": round(time.monotonic() - begin, 1)}


def attack(seconds: float, size: Size, settling: float, strength: Strength = FULL) -> Outcome:
    """The whole run; ``settling`` is how long the broker may take to give its memory back."""
    with tempfile.TemporaryDirectory(prefix="seamark-hostile-") as name:
        place = Path(name)
        chosen = (*login_options(place), "group.initial.rebalance.delay.ms=1000")
        options = [word for option in chosen for word in ("-o", option)]
        with BrokerProcess(place / "broker", *options) as broker:
            honest, hostile = (Address(broker.bootstrap, user) for user in (HONEST, HOSTILE))
            world = fill(hostile, size)
            frames = _write_frames(place / "frames", world, strength)
            bystander.prepare(honest)
            with honest.connect() as client:
                client.create_topic(TOPIC, PARTITIONS)
            with Bystander(honest) as beside:
                # Whatever is used for the first time takes longer.
                beside.watch(max(1.0, seconds / 120))
                calm = beside.watch(max(1.0, seconds / 60))
                idle_mb = broker.resident_mb()
                # The checking program ends last: it must be able to work when the others are gone.
                with (
                    checking(honest) as checked,
                    clients.attacking(clients.KINDS, broker.bootstrap, frames, strength.connections) as done,
                ):
                    attacked = beside.watch(0.4 * seconds)
                    with short_of_descriptors(broker.pid):
                        starved = beside.watch(0.2 * seconds)
                    attacked.add(beside.watch(0.4 * seconds))
                    broker.check()
            settled_mb = _settled_mb(broker, idle_mb, settling)
            [books] = checked
            lost = missing(honest, books)
            broker.kill()
            broker.start()
            return Outcome(
                calm, attacked, starved, books, lost, missing(honest, books), idle_mb, settled_mb, broker.said, done
            )


def _settled_mb(broker: BrokerProcess, idle_mb: float, seconds: float) -> float:
    """What the broker holds when it has come back to what is allowed, or at the end of that time."""
    deadline = time.monotonic() + seconds
    while (held := broker.resident_mb()) - idle_mb > MOST_KEPT_MB and time.monotonic() < deadline:
        time.sleep(0.5)
    return held


def _write_frames(place: Path, world: World, strength: Strength) -> Path:
    (place / "worst").mkdir(parents=True)
    for api, version, path in _WORST:
        for names in ("existing", "unknown"):
            case = cases.filled(Shape(api, version, names=names, others=0), path, world, strength.request_bytes)
            (place / "worst" / f"{api}-{names}.frame").write_bytes(case.frame(1))
    clients.write_bombs(place / "bombs", strength.bomb_bytes, strength.bomb_partitions)
    return place


@contextmanager
def short_of_descriptors(pid: int) -> Iterator[None]:
    """The process may open no more files than it has open now."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    is_open = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (is_open, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def checking(address: Address) -> Iterator[list[Books]]:
    """Let the checking program run inside the block; its books are in the list afterwards."""
    books: list[Books] = []
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.soak.hostile_parts.checker", address.bootstrap, address.user],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield books
        said, _ = child.communicate(timeout=120)
        books.append(Books.heard(said.splitlines()[0]))
    finally:
        child.kill()
        child.wait()

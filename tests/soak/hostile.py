"""Ten minutes of everything that hostile clients do, beside a program that checks what was acknowledged to it.

Eight hostile processes (``benchmarks/hostile_parts/clients.py``) attack a broker that asks for a login: bad requests in
loops, bombs, slow readers, half requests, connections opened, dropped and hoarded, wrong logins. In the middle fifth
the broker's process may open no more files than it has open. Meanwhile one client commits a hundred times a second,
and one program produces, reads back, commits and reads that back. At the end the broker is killed and started again.

Nothing acknowledged may be missing, before the restart or after it; the p99 of commits stays within five times that
without an attack (the time without descriptors is counted apart: a commit may be refused then, and must work again
afterwards); memory after the attack is no higher than in its second minute; and the log stays small.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.hostile_parts import bystander, cases, clients
from benchmarks.hostile_parts.bystander import Latencies
from benchmarks.hostile_parts.login import HONEST, HOSTILE, Address, login_options
from benchmarks.hostile_parts.shapes import Shape
from benchmarks.hostile_parts.world import TINY, Size, World, fill
from tests.soak.hostile_parts.checker import PARTITIONS, TOPIC, Books, missing

SECONDS = 600.0
SIZE = Size(topics=200, wide_partitions=100, groups=100, members=100)
MOST_RATIO = 5.0
SECONDS_FOR_MEMORY = 60
MOST_GROWTH_MB = 40.0
MOST_LOG_BYTES = 1_000_000
SETTLING_SECONDS = 30.0
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


def run(scale: float) -> dict[str, object]:
    seconds = max(8.0, SECONDS * scale)
    begin = time.monotonic()
    told = attack(seconds, SIZE if scale > 0.1 else TINY, settling=SETTLING_SECONDS if scale > 0.1 else 1.0)
    is_calm = told["bystander_ratio"] <= MOST_RATIO
    return {**told, "ok": is_calm and not told["failures"], "seconds": round(time.monotonic() - begin, 1)}


def attack(seconds: float, size: Size, settling: float) -> dict[str, object]:
    """The whole run; ``failures`` has a sentence for everything but the bystander's waits that is not as promised."""
    with tempfile.TemporaryDirectory(prefix="seamark-hostile-") as name:
        place = Path(name)
        chosen = (*login_options(place), "group.initial.rebalance.delay.ms=1000")
        options = [word for option in chosen for word in ("-o", option)]
        with BrokerProcess(place / "broker", *options) as broker:
            honest, hostile = (Address(broker.bootstrap, user) for user in (HONEST, HOSTILE))
            world = fill(hostile, size)
            frames = _write_frames(place / "worst", world)
            bystander.prepare(honest)
            with honest.connect() as client:
                client.create_topic(TOPIC, PARTITIONS)
            calm = bystander.watch(honest, max(2.0, seconds / 60))
            # The checking program ends last: it must be able to work when the others are gone.
            with checking(honest) as checked, clients.attacking(clients.KINDS, hostile, frames) as done:
                attacked = bystander.watch(honest, 0.2 * seconds)
                early_mb = broker.resident_mb()
                _add(attacked, bystander.watch(honest, 0.2 * seconds))
                with short_of_descriptors(broker.pid):
                    starved = bystander.watch(honest, 0.2 * seconds)
                _add(attacked, bystander.watch(honest, 0.4 * seconds))
                broker.check()
            time.sleep(settling)
            late_mb = broker.resident_mb()
            [books] = checked
            failures = [*books.lost, *missing(honest, books)]
            said = broker.said
            broker.kill()
            broker.start()
            failures += [f"after the restart: {each}" for each in missing(honest, books)]
    failures += [f"after the attack, {each}" for each in books.refused_at_the_end]
    if not books.commits:
        failures.append(f"the checking program could not commit: {books.refused[:3]}")
    # In a short sample the attack has only begun when memory is looked at first.
    if seconds >= SECONDS_FOR_MEMORY and late_mb - early_mb > MOST_GROWTH_MB:
        failures.append(f"memory grew from {early_mb:.0f} MB to {late_mb:.0f} MB")
    if len(said) > MOST_LOG_BYTES:
        failures.append(f"the log has {len(said)} bytes")
    if "Traceback" in said:
        failures.append(f"the log has a traceback: {said[said.find('Traceback') - 200 :][:1500]}")
    return {
        "failures": failures[:20],
        "bystander_ratio": round(attacked.p99_ms() / calm.p99_ms(), 2),
        "calm": calm.facts(),
        "attacked": attacked.facts(),
        "short_of_descriptors": starved.facts(),
        "records_checked": sum(map(len, books.records.values())),
        "commits_checked": books.commits,
        "refused": len(books.refused),
        "first_refused": books.refused[:5],
        "longest_round_s": round(books.longest_s, 2),
        "early_mb": round(early_mb, 1),
        "late_mb": round(late_mb, 1),
        "log_bytes": len(said),
        "attackers": done,
    }


def _add(sum_of_all: Latencies, more: Latencies) -> None:
    sum_of_all.commits_s += more.commits_s
    sum_of_all.connects_s += more.connects_s
    sum_of_all.failures += more.failures


def _write_frames(place: Path, world: World) -> Path:
    place.mkdir()
    for api, version, path in _WORST:
        for names in ("existing", "unknown"):
            case = cases.filled(Shape(api, version, names=names, others=0), path, world)
            (place / f"{api}-{names}.frame").write_bytes(case.frame(1))
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

"""The search for the request of at most 1 MB that costs everybody else most.

First every API in its oldest and newest version with every plain extreme, and every bomb; then the worst of each API
in all its other versions; then neighbours of the worst, again and again, each filled up to the limit. A broker is
replaced by a new one on the same state when it holds more than at its start, when it lost or gained topics, or when it
was still busy. The worst are measured three times more, each on a new broker, and the medians are what counts. A case
that did not do what it says (a bomb that was not stored, a compaction that did not happen) is not counted but reported.

``python -m benchmarks.hostile_parts.search SECONDS [API …]`` prints the worst of each API.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.broker_process import BrokerProcess
from benchmarks.hostile_parts import cases
from benchmarks.hostile_parts.cases import Case
from benchmarks.hostile_parts.login import Address
from benchmarks.hostile_parts.probe import Connection, Cost, Probe
from benchmarks.hostile_parts.world import FULL, QUICK, Size, World, fill
from seamark.wire.protocol.apis import all_apis
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker_driver import Client

_OPTIONS = ("log.cleaner.backoff.ms=500", "offsets.topic.num.partitions=4")
# A broker that kept more than this of what it was sent makes room for a new one.
_KEPT_MB = 25.0
_SETTLING_SECONDS = 0.3
_CONFIRMATIONS = 3
# Twenty bombs are unfolded and checked in that time, on a slow machine too.
_BEFORE_SECONDS = 60.0
# So long the answer is waited for that says whether a case was done; others are served meanwhile, or it is over sooner.
_ANSWER_SECONDS = 15.0
_NOTHING = Cost(0.0, 0.0, 0.0, 0, "not sent")


@dataclass(frozen=True)
class Finding:
    case: Case
    size: int
    cost: Cost
    # Why the case is not what it says; empty if it is.
    not_done: str = ""

    def facts(self) -> dict[str, object]:
        """What is needed to repeat it."""
        return {
            "api": self.case.api,
            "version": self.case.version,
            "shape": self.case.text,
            "bytes": self.size,
            "pause_s": self.cost.pause_s,
            "processor_s": self.cost.processor_s,
            "memory_mb": self.cost.memory_mb,
            "answer_bytes": self.cost.answer_bytes,
            "outcome": self.cost.outcome,
        }


class Target:
    """The broker that is attacked, and the state it begins with; without a size that is nothing."""

    def __init__(self, place: Path, size: Size | None, *options: str, user: str = "") -> None:
        self._place = place
        # Whom the bystander logs in as; the attacker does not.
        self._user = user
        self._options = [word for option in (*_OPTIONS, *options) for word in ("-o", option)]
        self._template = place / "template"
        self._numbers = count()
        self._broker: BrokerProcess | None = None
        self._probe: Probe | None = None
        self.world = World((), (), (), ())
        self.starts = 0
        with BrokerProcess(self._template, *self._options) as broker:
            if size is not None:
                self.world = fill(Address(broker.bootstrap), size)
            with Client(broker.bootstrap) as client:
                told = client.ask(ApiVersionsRequest(), 0).api_keys
            names = {key: api.name for key, api in all_apis().items()}
            self.served = {names[each.api_key]: (each.min_version, each.max_version) for each in told}
            broker.stop()

    def be_ready(self) -> Probe:
        """Start a broker unless there is one."""
        if self._probe is None:
            self._probe = self._start()
        return self._probe

    def _start(self) -> Probe:
        data = self._place / f"data-{next(self._numbers)}"
        shutil.copytree(self._template, data)
        self._broker = BrokerProcess(data, *self._options).start()
        self._data = data
        time.sleep(_SETTLING_SECONDS)
        self._topics = self._count_topics() if self.world.topics else 0
        self.starts += 1
        return Probe(Address(self._broker.bootstrap, self._user), self._broker.pid)

    def _count_topics(self) -> int:
        assert self._broker is not None
        with Client(self._broker.bootstrap) as client:
            return len(client.metadata().topics)

    def replace(self) -> None:
        """Let the next case have a new broker."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None
        if self._broker is not None:
            self._broker.kill()
            self._broker = None
            shutil.rmtree(self._data, ignore_errors=True)

    def measure(self, case: Case, salt: int) -> Finding:
        frame = case.frame(salt)
        probe = self.be_ready()
        assert self._broker is not None
        connection = Connection(Address(self._broker.bootstrap), keeps=case.check is not None or bool(case.before))
        cost = _NOTHING
        try:
            not_done = _prepare(connection, case, salt)
            if not not_done:
                if not case.reads:
                    connection.stop_reading()
                answered_s = _ANSWER_SECONDS if case.check is not None else 0.0
                cost = probe.measure(frame, connection, case.watched_s, answered_s)
                not_done = self._not_done(case, cost, connection.answer)
        finally:
            connection.close()
        is_spent = case.leaves_records or not_done or cost.outcome in ("unfinished", "bystander closed")
        if is_spent or self._has_changed(probe):
            self.replace()
        return Finding(case, len(frame), cost, not_done)

    def _not_done(self, case: Case, cost: Cost, answer: bytes) -> str:
        if cost.outcome in ("unfinished", "bystander closed"):
            # That is bad enough, whatever would have come of it.
            return ""
        if case.check is not None:
            if cost.outcome != "answered":
                return f"the request was not answered: {cost.outcome}"
            if not_done := case.check(answer):
                return not_done
        if case.aftermath is not None:
            assert self._broker is not None
            with Client(self._broker.bootstrap) as client:
                return case.aftermath(client)
        return ""

    def _has_changed(self, probe: Probe) -> bool:
        if probe.resident_mb() - probe.idle_mb > _KEPT_MB:
            return True
        if not self.world.topics:
            return False
        try:
            return abs(self._count_topics() - self._topics) > 0.1 * self._topics
        except Exception:  # noqa: BLE001 - a broker that does not even answer this is no good any more
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.replace()


def _prepare(connection: Connection, case: Case, salt: int) -> str:
    """Send what comes before the case; a sentence says what went wrong."""
    for step in case.before:
        connection.begin(step.frame(salt))
        deadline = time.monotonic() + _BEFORE_SECONDS
        while not connection.is_answered:
            connection.advance()
            if connection.is_closed:
                return "the connection was closed before"
            if time.monotonic() > deadline:
                return f"what comes before was not answered in {_BEFORE_SECONDS:g} s"
            time.sleep(0.0005)
        if not_done := step.check(connection.answer):
            return not_done
    return ""


class Search:
    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._rng = random.Random(seed)
        self._salts = count(1)
        self.findings: list[Finding] = []
        # What did not do what it says; it says nothing about the broker.
        self.not_done: list[Finding] = []

    def run(self, seconds: float, apis: Iterable[str] = ()) -> None:
        target = self._target
        served = {api: versions for api, versions in target.served.items() if not apis or api in apis}
        bombs = [case for case in cases.produced(target.world) if not apis or case.api in apis]
        self.measure(cases.rounds(served, target.world, self._rng), 0.35 * seconds)
        self.measure(cases.in_turn(bombs, self._rng), 0.3 * seconds)
        self.measure(self._other_versions(served), 0.1 * seconds)
        self.measure(self._climb(), 0.15 * seconds)
        self.measure([cases.unread(each.case) for each in self.worst(by_answer)], 0.1 * seconds)

    def _climb(self) -> Iterator[Case]:
        """Neighbours of what is worst by now, without end."""
        while any(each.case.shape is not None for each in self.findings):
            yield from self._neighbours()

    def measure(self, chosen: Iterable[Case], seconds: float) -> None:
        """As many of these as the time allows."""
        self._target.be_ready()
        deadline = time.monotonic() + seconds
        for case in chosen:
            found = self._target.measure(case, next(self._salts))
            (self.not_done if found.not_done else self.findings).append(found)
            if time.monotonic() > deadline:
                return

    def _other_versions(self, served: cases.Served) -> Iterator[Case]:
        """The worst shapes of each API in the versions that were not tried."""
        shaped = [each for each in self.findings if each.case.shape is not None]
        wanted = [
            (worst.case, version)
            for worst in self._worst_of_each_api(shaped, by_pause)
            for version in range(served[worst.case.api][0] + 1, served[worst.case.api][1])
        ]
        self._rng.shuffle(wanted)
        for case, version in wanted:
            yield cases.in_version(case, version, self._target.world)

    def _neighbours(self) -> Iterator[Case]:
        """Of the worst by pause and the worst by memory, no API twice in a row."""
        shaped = [each for each in self.findings if each.case.shape is not None]
        for key in (by_pause, by_memory):
            for finding in self._worst_of_each_api(shaped, key)[:4]:
                yield cases.neighbour(finding.case, self._target.world, self._rng)

    @staticmethod
    def _worst_of_each_api(findings: Iterable[Finding], key: Callable[[Finding], float]) -> list[Finding]:
        worst: dict[str, Finding] = {}
        for each in findings:
            if each.case.api not in worst or key(each) > key(worst[each.case.api]):
                worst[each.case.api] = each
        return sorted(worst.values(), key=key, reverse=True)

    def worst(self, key: Callable[[Finding], float]) -> list[Finding]:
        return self._worst_of_each_api(self.findings, key)

    def confirmed(self, key: Callable[[Finding], float], tries: int = 3) -> Finding:
        """The worst of the few worst, as the median of runs on new brokers."""
        return max((self._confirm(each, key) for each in self.worst(key)[:tries]), key=key)

    def _confirm(self, finding: Finding, key: Callable[[Finding], float]) -> Finding:
        again = []
        for _ in range(_CONFIRMATIONS):
            self._target.replace()
            again.append(self._target.measure(finding.case, next(self._salts)))
        again = [each for each in again if not each.not_done] or [finding]
        middle = statistics.median(map(key, again))
        return min(again, key=lambda each: abs(key(each) - middle))


def by_pause(finding: Finding) -> float:
    return finding.cost.pause_s


def by_memory(finding: Finding) -> float:
    return finding.cost.memory_mb


def by_answer(finding: Finding) -> float:
    return finding.cost.answer_bytes


def main() -> None:
    seconds = float(sys.argv[1])
    seed = int(os.environ.get("SEAMARK_SEED") or random.SystemRandom().randrange(2**32))
    with (
        tempfile.TemporaryDirectory(prefix="seamark-hostile-") as name,
        Target(Path(name), QUICK if seconds < 120 else FULL) as target,
    ):
        search = Search(target, seed)
        search.run(seconds, sys.argv[2:])
        print(f"seed {seed}, {len(search.findings)} requests, {target.starts} brokers")
        for title, key in (("pause", by_pause), ("memory", by_memory)):
            print(f"-- by {title}")
            for finding in search.worst(key):
                print(finding.facts())
        for finding in search.not_done:
            print(f"not done: {finding.case.api} {finding.case.text}: {finding.not_done}")


if __name__ == "__main__":
    main()

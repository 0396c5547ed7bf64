"""hostile.*: what one hostile client can do to everybody else, on a broker process with topics, groups and members.

``worst_request`` and ``memory`` are the longest pause and the highest memory above idle that a search over all APIs and
versions found for one request of at most 1 MB (``benchmarks/hostile_parts/search.py``), by clients that are let in and
by strangers, with answers that are read and answers that are not; the line says which request it was, and the seed.
Cases that did not do what they say are in ``not_done`` and count for nothing.

``bystander`` is the p99 of a well-behaved client's commits while eight hostile processes do their worst, against the
same broker without them (``hostile_parts/clients.py`` has their kinds); beside it stand its records and its new
connections, what each attacker did, and what eight processes do to it that only use the processor, because all of them
share one machine here.

``SEAMARK_SEED`` repeats a search. ``SEAMARK_HOSTILE_SECONDS`` makes it longer or shorter.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.broker_process import BrokerProcess
from benchmarks.claims import QUICK as IS_QUICK
from benchmarks.hostile_parts import bystander, cases, clients
from benchmarks.hostile_parts.bystander import Bystander
from benchmarks.hostile_parts.login import HONEST, HOSTILE, Address, login_options
from benchmarks.hostile_parts.search import Finding, Search, Target, by_answer, by_memory, by_pause
from benchmarks.hostile_parts.world import FULL, QUICK, Size, fill


@dataclass(frozen=True)
class Length:
    """How long everything takes."""

    search_s: float
    strangers_s: float
    calm_s: float
    attack_s: float
    size: Size


FULL_LENGTH = Length(search_s=170, strangers_s=10, calm_s=8, attack_s=20, size=FULL)
QUICK_LENGTH = Length(search_s=30, strangers_s=3, calm_s=3, attack_s=6, size=QUICK)
# Worst requests of so many APIs are what the first hostile client sends in turn.
WORST_SENT = 6


def measure() -> Iterator[dict[str, object]]:
    length = QUICK_LENGTH if IS_QUICK else FULL_LENGTH
    seed = int(os.environ.get("SEAMARK_SEED") or random.SystemRandom().randrange(2**32))
    seconds = float(os.environ.get("SEAMARK_HOSTILE_SECONDS") or length.search_s)
    with tempfile.TemporaryDirectory(prefix="seamark-hostile-") as name:
        place = Path(name)
        frames = place / "frames"
        (frames / "worst").mkdir(parents=True)
        clients.write_bombs(frames / "bombs")
        yield from request_claims(place, length, seed, seconds, frames / "worst")
        yield bystander_claim(place, length, seed, frames)


def request_claims(place: Path, length: Length, seed: int, seconds: float, frames: Path) -> Iterator[dict[str, object]]:
    searched = place / "searched"
    searched.mkdir()
    with Target(searched, length.size) as target:
        search = Search(target, seed)
        search.run(seconds)
        worst = search.worst(by_pause)
        for number, finding in enumerate(worst[:WORST_SENT]):
            (frames / f"{number}.frame").write_bytes(finding.case.frame(number))
        tries = 2 if IS_QUICK else 3
        longest, largest = (search.confirmed(key, tries) for key in (by_pause, by_memory))
        tried: dict[str, Any] = {
            "seed": seed,
            "requests": len(search.findings),
            "apis": len({each.case.api for each in search.findings}),
            "versions": len({(each.case.api, each.case.version) for each in search.findings}),
            "brokers": target.starts,
            "unfinished": sum(each.cost.outcome == "unfinished" for each in search.findings),
            "not_done": [f"{each.case.text}: {each.not_done}" for each in search.not_done],
        }
        by_api = {each.case.api: each.cost.pause_s for each in worst if each.cost.pause_s > 0.05}
        mb_by_api = {each.case.api: each.cost.memory_mb for each in search.worst(by_memory) if each.cost.memory_mb > 20}
        [answer, *_] = search.worst(by_answer)
    guarded = place / "guarded"
    guarded.mkdir()
    # What somebody without a login can do to a broker that asks for one.
    with Target(guarded, None, *login_options(guarded), user=HONEST) as target:
        strangers = Search(target, seed)
        strangers.measure(cases.of_strangers(), length.strangers_s)
        longest_of_strangers, largest_of_strangers = (strangers.confirmed(key, 1) for key in (by_pause, by_memory))
        tried["strangers"] = len(strangers.findings)
        tried["not_done"] += [f"{each.case.text}: {each.not_done}" for each in strangers.not_done]
    yield _claim("hostile.worst_request", "s", by_pause, longest, longest_of_strangers, **tried, by_api=by_api)
    yield _claim(
        "hostile.memory", "MB", by_memory, largest, largest_of_strangers,
        **tried, by_api=mb_by_api, largest_answer=answer.facts(),
    )  # fmt: skip


def _claim(
    claim_id: str, unit: str, key: Callable[[Finding], float], known: Finding, stranger: Finding, **also: object
) -> dict[str, object]:
    worst = max(known, stranger, key=key)
    claim = {"id": claim_id, "unit": unit, "better": "lower", "ours": key(worst), "peer": None, "ratio": None}
    return {**claim, "worst": worst.facts(), "worst_of_strangers": stranger.facts(), **also}


def bystander_claim(place: Path, length: Length, seed: int, frames: Path) -> dict[str, object]:
    options = [word for option in login_options(place) for word in ("-o", option)]
    with BrokerProcess(place / "bystander", *options) as broker:
        honest, hostile = (Address(broker.bootstrap, user) for user in (HONEST, HOSTILE))
        fill(hostile, length.size)
        bystander.prepare(honest)
        with Bystander(honest) as beside:
            beside.watch(length.calm_s / 2)
            calm = beside.watch(length.calm_s)
            with clients.busy(len(clients.KINDS)):
                crowded = beside.watch(length.calm_s)
            with clients.attacking(clients.KINDS, broker.bootstrap, frames) as done:
                disturbed = beside.watch(length.attack_s)
                resident_mb = broker.resident_mb()
        log_bytes = len(broker.said)
    ratio = disturbed.p99_ms() / calm.p99_ms()
    return {
        "id": "hostile.bystander",
        "unit": "ratio",
        "better": "lower",
        "ours": round(disturbed.p99_ms(), 3),
        "peer": round(calm.p99_ms(), 3),
        "ratio": round(ratio, 2),
        "seed": seed,
        "calm": calm.facts(),
        "beside_busy_processes": crowded.facts(),
        "attacked": disturbed.facts(),
        "attackers": done,
        "resident_mb": round(resident_mb, 1),
        "log_bytes": log_bytes,
    }

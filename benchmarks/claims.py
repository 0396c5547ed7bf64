"""How a claim is measured: ours and the peer in turn, five times after both are warm; the medians are compared.

A run does its work once and returns its figure. Both sides take turns while warming up as well, until neither has
become faster: a JVM compiles what it runs, and before that it is the compiler which is measured.
SEAMARK_BENCH_QUICK=1 makes everything short, for trying it out: its figures say nothing.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping

QUICK = os.environ.get("SEAMARK_BENCH_QUICK", "") not in ("", "0")
# A round that is better than all before it by less than this is noise.
_NOTICEABLE = 1.03
# So many rounds without a better one are the end of warming up; a machine on which there is always a better one is not
# waited for.
_ROUNDS_WITHOUT_GAIN = 2
_MOST_WARM_ROUNDS = 2 if QUICK else 12

Run = Callable[[], float]


def compare(
    claim_id: str,
    unit: str,
    better: str,
    ours: Run,
    peer: Run | None,
    runs: int = 5,
    *,
    fresh_processes: bool = False,
    **also: object,
) -> dict[str, object]:
    """The claim with both medians and the median of the runs' own ratios.

    ``fresh_processes`` is for runs that start a process each: only the system's file cache gets warm, in one round.
    """
    [claim] = compare_each({claim_id: ours}, unit, better, peer, runs, fresh_processes=fresh_processes)
    return claim | also


def compare_each(
    ours: Mapping[str, Run], unit: str, better: str, peer: Run | None, runs: int = 5, *, fresh_processes: bool = False
) -> list[dict[str, object]]:
    """Several of our ways, by their claims, beside the same runs of one peer."""
    sides: list[Run] = [*ours.values(), *([peer] if peer else [])]
    warm_rounds = _warm_up(sides, better, most=1 if fresh_processes else _MOST_WARM_ROUNDS)
    figures: list[list[float]] = [[] for _ in sides]
    for number in range(runs):
        # Whoever runs second may find the machine in another state; it is not always the same.
        for side in range(len(sides)) if number % 2 else reversed(range(len(sides))):
            figures[side].append(sides[side]())
    peer_figures = figures[-1] if peer else []
    claims = []
    for claim_id, our_figures in zip(ours, figures, strict=False):
        ratios = [mine / theirs for mine, theirs in zip(our_figures, peer_figures, strict=bool(peer))]
        claims.append(
            {
                "id": claim_id,
                "unit": unit,
                "better": better,
                "ours": _rounded(statistics.median(our_figures)),
                "peer": _rounded(statistics.median(peer_figures)) if peer_figures else None,
                "ratio": _rounded(statistics.median(ratios)) if ratios else None,
                "runs": runs,
                "warm_rounds": warm_rounds,
            }
        )
    return claims


def figures_of(claim: Mapping[str, object]) -> dict[str, object]:
    """The figures alone, to stand beside another claim."""
    return {name: claim[name] for name in ("ours", "peer", "ratio")}


def _warm_up(sides: list[Run], better: str, most: int) -> int:
    """Let all sides run in turn until none of them gets faster; returns the number of rounds."""
    best: list[float] = []
    without_gain = 0
    for number in range(1, most + 1):
        found = [run() for run in sides]
        gained = [_is_gain(new, old, better) for new, old in zip(found, best, strict=False)]
        without_gain = 0 if any(gained) or not best else without_gain + 1
        pick = max if better == "higher" else min
        best = [pick(pair) for pair in zip(found, best or found, strict=True)]
        if without_gain == _ROUNDS_WITHOUT_GAIN:
            return number
    return most


def _is_gain(new: float, old: float, better: str) -> bool:
    return new > old * _NOTICEABLE if better == "higher" else new * _NOTICEABLE < old


def _rounded(figure: float) -> float:
    return float(f"{figure:.4g}")

"""What a check of a handler found, as a value that prints itself in a few lines."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.counts import counted


@dataclass(frozen=True, slots=True)
class Failure:
    """The first promise that was broken; the same ``seed`` breaks it again. ``events`` tells what came before.

    ``error`` is what the handler raised, if that broke it.
    """

    seed: int
    reason: str
    events: str
    error: BaseException | None = None

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """Sums over all ``seeds`` that were run.

    ``runs`` counts how often records were handed to the handler, ``repeats`` how many of these were not the first time;
    ``most_runs`` is the highest count of a single record within one seed. ``given_up`` records were skipped or dead
    lettered as the settings say.
    """

    handler: str
    records: int
    seeds: int
    runs: int = 0
    repeats: int = 0
    most_runs: int = 0
    failed_runs: int = 0
    given_up: int = 0
    crashes: int = 0
    rebalances: int = 0
    commits: int = 0
    compares_effects: bool = False
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    def __str__(self) -> str:
        records, seeds = counted(self.records, "record"), counted(self.seeds, "seed")
        crashes, rebalances = counted(self.crashes, "crash", "crashes"), counted(self.rebalances, "rebalance")
        commits = counted(self.commits, "commit")
        lines = [
            f"{self.handler}: {'ok' if self.ok else 'FAILED'}, {records}, {seeds}",
            f"  survived        {crashes}, {rebalances}, {commits}",
            f"  handler runs    {self.runs}, {self.repeats} of them repeats; at most {self.most_runs} of one record",
        ]
        if self.failed_runs:
            lines.append(f"  failed runs     {self.failed_runs}")
        if self.given_up:
            lines.append(f"  given up        {self.given_up}")
        if self.compares_effects:
            verdict = "the same as after one clean pass" if self.ok else "see below"
            lines.append(f"  effects         {verdict}")
        elif self.repeats:
            lines.append("  effects         not checked; give effects= and reset= to check whether repeats are safe")
        if self.failure is not None:
            lines.append(f"  {self.failure}")
            lines.append(f"  replay it with check(…, seed={self.failure.seed})")
        return "\n".join(lines)

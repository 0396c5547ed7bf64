"""Histories of groups whose truth is known, because what happened to them was done to them on purpose.

A small world runs a producer, a consumer that reads and commits, and looks at the log; an action is injected into it
(or none, or one that only looks like trouble). The rules' thresholds are not used here: an action is large against the
world's own pace, not against a parameter.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from seamark.rules.findings import Commit, Deletion, Generation, GroupHistory, LogSample, PartitionHistory

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_700_000_000_000


@dataclass
class World:
    """One partition: its log's end, the group's offset, and what was stored and seen."""

    rng: random.Random
    now: int = START
    log_start: int = 0
    log_end: int = 0
    offset: int = 0
    rate: float = 50.0
    capacity: float = 200.0
    every: int = 5 * SECOND
    look: int = MINUTE
    is_alive: bool = True
    is_reading: bool = True
    commits: list[Commit] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    samples: list[LogSample] = field(default_factory=list)
    done_ahead: int = 0
    metadata: int = 0
    _next_commit: int = 0
    _next_look: int = 0

    def commit(self, origin: str = "member") -> None:
        self.commits.append(Commit(self.now, self.offset, origin, self.metadata, self.done_ahead))

    def run(self, duration: int, step: int = SECOND) -> None:
        end = self.now + duration
        while self.now < end:
            self.now += step
            share = step / SECOND
            self.log_end += int(self.rate * share + self.rng.random())
            if self.is_alive and self.is_reading:
                self.offset = min(self.log_end, self.offset + int(self.capacity * share + self.rng.random()))
            if self.now >= self._next_commit:
                self._next_commit = self.now + self.every
                if self.is_alive:
                    self.commit()
            if self.now >= self._next_look:
                self._next_look = self.now + self.look
                self.samples.append(LogSample(self.now, self.log_start, self.log_end))

    def history(self, index: int = 0) -> PartitionHistory:
        return PartitionHistory("g", "t", index, self.now, self.commits, self.deletions, self.samples)


def world(rng: random.Random) -> World:
    made = World(rng)
    made.rate = rng.choice([5, 50, 300])
    made.capacity = made.rate * rng.uniform(3, 8)
    made.every = rng.choice([1, 5, 30]) * SECOND
    made.look = rng.choice([15, 60]) * SECOND
    made.log_end = made.offset = rng.randrange(10_000, 10_000_000)
    made.run(rng.randrange(10, 40) * MINUTE)
    return made


# What is done to a group, and what must be found; nothing else may be.


def stalled(made: World) -> set[str]:
    made.is_reading = False
    made.run(40 * MINUTE)
    return {"stall"}


def stalled_and_recovered(made: World) -> set[str]:
    made.is_reading = False
    made.run(40 * MINUTE)
    made.is_reading = True
    made.run(40 * MINUTE)
    return {"stall"}


def blocked(made: World) -> set[str]:
    made.is_reading = False
    made.done_ahead = 200
    made.run(40 * MINUTE)
    return {"blocked"}


def stopped(made: World) -> set[str]:
    made.is_alive = False
    made.run(90 * MINUTE)
    return {"stop"}


def rewound_by_itself(made: World) -> set[str]:
    made.offset -= min(made.offset, int(made.rate * 600))
    made.commit()
    made.run(40 * MINUTE)
    return {"rewind"}


def reset_backwards(made: World) -> set[str]:
    made.is_alive = False
    made.run(2 * MINUTE)
    made.offset -= min(made.offset, int(made.rate * 600))
    made.commit("outside")
    made.run(MINUTE)
    made.is_alive = True
    made.run(40 * MINUTE)
    return {"rewind", "moved from outside"}


def reset_forwards(made: World) -> set[str]:
    made.is_alive = False
    made.run(5 * MINUTE)
    made.offset = made.log_end
    made.commit("outside")
    made.is_alive = True
    made.run(20 * MINUTE)
    return {"forward jump", "moved from outside"}


def committed_beyond_the_end(made: World) -> set[str]:
    made.is_alive = False
    made.offset = made.log_end + 1_000_000_000
    made.commit("outside")
    made.run(10 * MINUTE)
    return {"beyond the end", "forward jump", "moved from outside"}


def expired_after_a_week(made: World) -> set[str]:
    made.is_alive = False
    made.rate = 0
    made.offset = made.log_end
    made.is_alive = True
    made.run(MINUTE)
    made.is_alive = False
    made.run(7 * DAY + HOUR, step=10 * MINUTE)
    made.deletions.append(Deletion(made.now))
    made.run(HOUR, step=MINUTE)
    return {"expired"}


def overloaded(made: World) -> set[str]:
    made.rate = made.capacity * 3
    made.run(60 * MINUTE)
    return {"slow drain"}


def commits_each_record(made: World) -> set[str]:
    for _ in range(1500):
        made.now += 40
        made.log_end += 1
        made.offset = made.log_end
        made.commit()
    made.run(5 * MINUTE)
    return {"commits too often"}


def nearly_full_metadata(made: World) -> set[str]:
    made.metadata = 4090
    made.run(MINUTE)
    return {"metadata near its limit"}


# What only looks like trouble.


def healthy(made: World) -> set[str]:
    made.run(60 * MINUTE)
    return set()


def slow_topic(made: World) -> set[str]:
    """A record now and then, read at once; the same offset is committed again and again between."""
    made.rate = 0
    for _ in range(12):
        made.run(made.rng.randrange(5, 30) * MINUTE)
        made.log_end += 1
    made.run(MINUTE)
    return set()


def paused_while_nothing_comes(made: World) -> set[str]:
    made.rate = 0
    made.run(MINUTE)
    made.is_alive = False
    made.run(3 * HOUR)
    return set()


def commits_in_batches(made: World) -> set[str]:
    """An hourly job: reads what there is, commits once, ends."""
    made.is_alive = False
    made.commits.clear()
    for _ in range(8):
        made.run(HOUR, step=10 * SECOND)
        made.offset = made.log_end
        made.commit()
    return set()


def small_steady_lag(made: World) -> set[str]:
    made.run(10 * MINUTE)
    for _ in range(60):
        made.log_end += 3
        made.run(MINUTE)
    return set()


def burst_and_catch_up(made: World) -> set[str]:
    made.log_end += int(made.capacity * 240)
    made.run(40 * MINUTE)
    return set()


def overtaken_commits(made: World) -> set[str]:
    for _ in range(20):
        made.run(10 * SECOND)
        late = made.offset
        made.run(SECOND)
        made.commit()
        made.commits.append(Commit(made.now + 1, late, "member"))
        made.now += 1
        made.commit()
    return set()


def short_restart(made: World) -> set[str]:
    made.is_alive = False
    made.run(2 * MINUTE)
    made.is_alive = True
    made.run(20 * MINUTE)
    return set()


def deleted_by_hand(made: World) -> set[str]:
    made.is_alive = False
    made.run(MINUTE)
    made.deletions.append(Deletion(made.now))
    made.now += SECOND
    made.offset = made.log_end
    made.commit("outside")
    made.is_alive = True
    made.run(20 * MINUTE)
    return set()


TROUBLE = (
    stalled, stalled_and_recovered, blocked, stopped, rewound_by_itself, reset_backwards, reset_forwards,
    committed_beyond_the_end, expired_after_a_week, overloaded, commits_each_record, nearly_full_metadata,
)  # fmt: skip
LOOK_ALIKES = (
    healthy, slow_topic, paused_while_nothing_comes, commits_in_batches, small_steady_lag, burst_and_catch_up,
    overtaken_commits, short_restart, deleted_by_hand,
)  # fmt: skip


def history_of(action, seed: int) -> tuple[GroupHistory, set[str]]:
    """A group with one partition to which ``action`` happened, and the kinds that must be found in it."""
    made = world(random.Random(f"{action.__name__}-{seed}"))
    truth = action(made)
    generation = Generation(START, 1, 1, frozenset({("t", 0)}))
    return GroupHistory("g", made.now, [made.history()], [generation]), truth

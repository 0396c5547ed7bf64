"""User code that does not come back to poll for long: it sleeps, it computes without a pause, it blocks its own loop.

Below ``max.poll.interval.ms`` none of that costs the membership, though the session is far shorter: heartbeats live on
a thread of their own. Above it the member leaves by itself, long before its session could end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from seamark.client import Admin, AsyncConsumer, Consumer
from seamark.client.admin.types import NewTopic

SESSION_MS = 6000


def sleep_for(seconds: float) -> None:
    time.sleep(seconds)


def compute_for(seconds: float) -> None:
    """Pure Python that never lets go of the interpreter by itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10_000))


class Caller(threading.Thread):
    """One member of a group of its own, which works for ``seconds`` between two polls and notes what that costs."""

    def __init__(
        self, bootstrap: str, name: str, work: Callable[[float], object], seconds: float, **config: Any
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.group = f"slow-{name}"
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": self.group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            **config,
        }
        self._work = work
        self._seconds = seconds
        self.has_joined = threading.Event()
        # What the listener heard after the first assignment, and the generation before and after the work.
        self.heard: list[str] = []
        self.generations: list[tuple[int, str]] = []
        self.error: BaseException | None = None

    @property
    def listener(self) -> dict[str, Callable[[object], None]]:
        return {
            f"on_{word}": (lambda _, word=word: self.heard.append(word)) for word in ("assigned", "revoked", "lost")
        }

    def run(self) -> None:
        try:
            self.consume()
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            self.error = error

    def consume(self) -> None:
        with Consumer(self._config) as consumer:
            consumer.subscribe([self.group], **self.listener)
            while not consumer.assignment():
                consumer.poll(0.1)
            self._note(consumer)
            self._work(self._seconds)
            consumer.poll(0.5)
            self._note(consumer)

    def _note(self, consumer: Consumer | AsyncConsumer) -> None:
        metadata = consumer.group_metadata()
        self.generations.append((metadata.generation_id, metadata.member_id))
        self.has_joined.set()

    @property
    def has_kept_its_membership(self) -> bool:
        # Revoked is what closing says in the end.
        return (
            self.error is None
            and self.heard == ["assigned", "revoked"]
            and len(self.generations) == 2
            and self.generations[0] == self.generations[1]
        )

    def __repr__(self) -> str:
        return f"{self.name}: generations {self.generations}, heard {self.heard}, error {self.error!r}"


class BlockingCaller(Caller):
    """An AsyncConsumer in a loop that its user blocks."""

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        async with AsyncConsumer(self._config) as consumer:
            await consumer.subscribe([self.group], **self.listener)
            while not consumer.assignment():
                await consumer.poll(0.1)
            self._note(consumer)
            self._work(self._seconds)
            await consumer.poll(0.5)
            self._note(consumer)


def callers_below_the_limit(bootstrap: str, seconds: float, suffix: str = "", **config: Any) -> list[Caller]:
    """Let all three kinds work for so long at the same time; gives them when they are done."""
    callers = [
        Caller(bootstrap, f"sleeps{suffix}", sleep_for, seconds, **config),
        Caller(bootstrap, f"computes{suffix}", compute_for, seconds, **config),
        BlockingCaller(bootstrap, f"blocks{suffix}", compute_for, seconds, **config),
    ]
    make_topics(bootstrap, callers)
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(seconds + 120)
    return callers


def seconds_until_it_has_left(bootstrap: str, limit_s: float, suffix: str = "") -> tuple[float, Caller]:
    """How long a caller that stays away was still a member, as the coordinator sees it; -1 if for too long.

    It comes back, and joins again, once it is seen to have left.
    """
    has_left = threading.Event()
    # The session is so long that only leaving can end the membership.
    config = {"max.poll.interval.ms": int(limit_s * 1000), "session.timeout.ms": 45_000}
    patience_s = limit_s + 20
    caller = Caller(bootstrap, f"stays-away{suffix}", has_left.wait, patience_s, **config)
    make_topics(bootstrap, [caller])
    caller.start()
    caller.has_joined.wait(60)
    began = time.monotonic()
    left_after = -1.0
    with Admin(bootstrap_servers=bootstrap) as admin:
        while caller.is_alive() and left_after < 0:
            if not admin.describe_groups([caller.group])[caller.group].members:
                left_after = time.monotonic() - began
                has_left.set()
            time.sleep(0.05)
    caller.join(120)
    return left_after, caller


def make_topics(bootstrap: str, callers: list[Caller]) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(caller.group, 2, 1) for caller in callers]).raise_if_failed()

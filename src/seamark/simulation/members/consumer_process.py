"""The client as it ships inside of a simulated process: on a virtual loop, over connections in memory.

Everything of the client is its own, from the calls of ``AsyncConsumer`` down to the bytes of a connection; a fetcher
behind the client's port brings the records. What is replaced is what surrounds a client: the clock, chance, the log,
the event loop, and the thread of the I/O. Between that thread and the application's other things happen: a crossing
takes a moment now and then.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar

from seamark.client.config.config import ClientConfig
from seamark.client.consumer.async_consumer import AsyncConsumer, current_task_id
from seamark.client.consumer.handle import ConsumerFacade
from seamark.client.consumer.shell import MakeFetcher
from seamark.client.core.consumer_core import ConsumerCore
from seamark.client.net.client_log import ClientLog
from seamark.client.net.surroundings import Surroundings
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.virtual_loop import Killed, VirtualLoop

T = TypeVar("T")
P = ParamSpec("P")

# How often a result of the I/O thread comes to the application a little later, and how much.
_LATE_CHANCE = 0.1
_LATE_S = 0.02


class VirtualIo:
    """The I/O thread of a simulated process: the same loop as the application's, apart from it by a moment."""

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self._process = loop
        self._rng = rng

    @property
    def owner_is_here(self) -> bool:
        return self._process.is_alive

    def check_owner(self, what: str = "client") -> None:
        if not self._process.is_alive:
            raise AssertionError(f"the process of this {what} has ended")

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._process.is_alive:
            work.close()
            raise Killed
        try:
            return await work
        finally:
            if self._rng.random() < _LATE_CHANCE:
                await asyncio.sleep(self._rng.random() * _LATE_S)

    def call_soon(self, function: Callable[P, object], *args: P.args, **keywords: P.kwargs) -> None:
        self._process.call_soon(lambda: function(*args, **keywords))

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        raise AssertionError(f"nobody outside of the loop starts {work}")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        raise AssertionError(f"nobody blocks for {work}")


class TranscriptLog(ClientLog):
    """What a client says is part of what happened."""

    def __init__(self, config: ClientConfig, name: str, loop: VirtualLoop, events: list[Event]) -> None:
        super().__init__(config)
        self._name = name
        self._loop = loop
        self._events = events

    def say(self, level: int, event: str, text: str, **fields: object) -> None:  # noqa: ARG002
        self._events.append((self._loop.now_ms, "says", self._name, event, text))

    def fault(self, text: str, error: BaseException) -> None:
        """A fault of the client's own ends the lifetime here and now."""
        self._events.append((self._loop.now_ms, "fault of", self._name, text))
        raise error


class WatchedConsumer(AsyncConsumer[None, None]):
    """The consumer itself; what a lifetime looks at beside what an application can see is ``core``."""

    def __init__(self, options: Mapping[str, Any], make_fetcher: MakeFetcher, surroundings: Surroundings) -> None:
        ConsumerFacade.__init__(
            self,
            options,
            (),
            {},
            key=None,
            value=None,
            make_fetcher=make_fetcher,
            who=current_task_id,
            surroundings=surroundings,
        )

    @property
    def core(self) -> ConsumerCore:
        return self._loop.core


class VirtualSurroundings(Surroundings):
    """Virtual time has whole milliseconds, and is asked for often."""

    __slots__ = ("_calls",)

    def __init__(self, name: str, loop: VirtualLoop, calls: EventLoop, rng: random.Random, events: list[Event]) -> None:
        super().__init__(
            monotonic=loop.time,
            wall=loop.time,
            make_random=lambda: rng,
            make_log=lambda config: TranscriptLog(config, name, loop, events),
            io=lambda: VirtualIo(loop, rng),
        )
        self._calls = calls

    def now_ms(self) -> int:
        return self._calls.now_ms

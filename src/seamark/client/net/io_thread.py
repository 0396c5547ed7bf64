"""The one thread per process that does all network I/O, with an event loop of its own.

It starts at first use, as a daemon, and serves every client in the process: a user thread that computes, sleeps or
blocks its own event loop never delays a heartbeat. Facades hand it coroutines and wait for their results.

Ownership: everything that a client keeps about the network is touched on this thread only. After a fork the child has
no such thread; ``IoThread.get`` starts a new one there, and clients made before the fork are refused by
``check_owner``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

from seamark.errors import MadeBeforeFork, UsageError

T = TypeVar("T")
P = ParamSpec("P")


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class IoRunner(Protocol):
    """What a consumer's facade needs of the thread that does its I/O."""

    loop: asyncio.AbstractEventLoop

    @property
    def owner_is_here(self) -> bool: ...

    def check_owner(self, what: str = "client") -> None: ...

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]: ...

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T: ...

    def call_soon(self, function: Callable[P, object], *args: P.args, **keywords: P.kwargs) -> None: ...


class IoThread:
    """The thread and its loop; get it with ``IoThread.get()``."""

    _current: ClassVar[IoThread | None] = None
    _starting: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.loop = _new_event_loop()
        self._thread = threading.Thread(target=self._run, name="seamark-io", daemon=True)
        self._thread.start()

    @classmethod
    def get(cls) -> IoThread:
        """The process's I/O thread, started if there is none."""
        current = cls._current
        if current is not None:
            return current
        with cls._starting:
            if cls._current is None:
                cls._current = cls()
            return cls._current

    @property
    def owner_is_here(self) -> bool:
        """Whether this is the process that the thread runs in; false in a forked child."""
        return IoThread._current is self

    def check_owner(self, what: str = "client") -> None:
        """MadeBeforeFork in a forked child; ``what`` is used there."""
        if IoThread._current is not self:
            raise MadeBeforeFork(what)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the I/O thread itself."""
        return threading.get_ident() == self._thread.ident

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the I/O thread; cancelling the future cancels it there."""
        if not self.owner_is_here:
            work.close()
            raise MadeBeforeFork("client")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the I/O thread and block until it is done; an interrupt of the caller cancels it."""
        if self.is_current and self.owner_is_here:
            work.close()
            raise UsageError("a blocking call was made on the I/O thread; use the Async… class inside callbacks")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the I/O thread and await it in the caller's own loop."""
        return await asyncio.wrap_future(self.submit(work))

    def call_soon(self, function: Callable[P, object], *args: P.args, **keywords: P.kwargs) -> None:
        """Run a function on the I/O thread without waiting; calls from one thread keep their order."""
        self.check_owner()
        if keywords:
            self.loop.call_soon_threadsafe(lambda: function(*args, **keywords))
        else:
            self.loop.call_soon_threadsafe(function, *args)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


def _forget_in_child() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    IoThread._starting = threading.Lock()
    IoThread._current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)

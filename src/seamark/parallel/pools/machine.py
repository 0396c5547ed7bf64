"""What the pool of processes needs of the machine: threads that feed, time, and processes at the end of a pipe.

A port of its own, so that what the pool concludes from a process that died can be run in virtual time, where processes
die between any two of their steps.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import socket
import threading
import time
from collections.abc import Callable, MutableSequence
from typing import Any, Protocol

from seamark.parallel.pools.process_calls import MOST_CALLS
from seamark.parallel.pools.whereabouts import HANDLER_PROCESS
from seamark.parallel.pools.worker import RECEIVED_BYTES, serve


class Child(Protocol):
    """A process, the memory that outlives it, and the owner's end of its pipe, which never waits."""

    states: MutableSequence[int]

    @property
    def pid(self) -> int | None: ...

    @property
    def exit_code(self) -> int | None: ...

    def is_gone(self) -> bool: ...

    def kill(self) -> None: ...

    def send(self, content: memoryview) -> int:
        """How much went; BlockingIOError if there is no room, OSError if nobody is at the other end."""

    def receive(self) -> bytes:
        """What is there, empty at the end; BlockingIOError if there is nothing yet."""

    def wait(self, seconds: float, *, for_room: bool = False) -> bool:
        """Until something can be received, or sent ``for_room``; False if time is up."""

    def close_pipe(self) -> None: ...


class Condition(Protocol):
    """Of ``threading.Condition``, what is used."""

    def __enter__(self) -> bool: ...

    def __exit__(self, *raised: Any) -> None: ...

    def wait(self) -> bool: ...

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool: ...

    def notify_all(self) -> None: ...


class Thread(Protocol):
    """Of ``threading.Thread``, what is used."""

    def join(self, timeout: float) -> None: ...


class Machine(Protocol):
    @property
    def processors(self) -> int: ...

    def clock(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def condition(self) -> Condition: ...

    def start_thread(self, target: Callable[[], object], name: str) -> Thread:
        """A daemon: what hangs in it does not keep the program from ending."""

    def spawn(self, payload: bytes) -> Child:
        """Start a process that serves; OSError, RuntimeError or ValueError if none can be had."""


class ThisMachine:
    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    condition = staticmethod(threading.Condition)

    @property
    def processors(self) -> int:
        return os.cpu_count() or 1

    def start_thread(self, target: Callable[[], object], name: str) -> Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def spawn(self, payload: bytes) -> Child:
        return _SpawnedProcess(payload)


THIS_MACHINE = ThisMachine()


class _SpawnedProcess:
    def __init__(self, payload: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = socket.socketpair()
        self._pipe.setblocking(False)
        states: Any = context.RawArray("B", MOST_CALLS)
        self.states: MutableSequence[int] = states
        self._process = context.Process(target=serve, args=(theirs, states, payload), name=HANDLER_PROCESS, daemon=True)
        try:
            self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def is_gone(self) -> bool:
        if not self._process.is_alive():
            return True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid or 0, 0)
            return False
        # Other code of the program has waited for it, so that its exit code is lost.
        return True

    def kill(self) -> None:
        self._process.kill()

    def send(self, content: memoryview) -> int:
        return self._pipe.send(content)

    def receive(self) -> bytes:
        return self._pipe.recv(RECEIVED_BYTES)

    def wait(self, seconds: float, *, for_room: bool = False) -> bool:
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN | select.POLLOUT if for_room else select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def close_pipe(self) -> None:
        self._pipe.close()

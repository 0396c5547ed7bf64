"""Connections of a Python worker, kept from one task to the next.

Spark reuses worker processes, and a task that has to connect and to ask for metadata first would wait for it each time.
A task takes a connection out and gives it back when it ended well; after an error or an unfinished read it is closed
instead. Best effort: workers end when Spark likes, and a forked child never uses what its parent made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from seamark.client.config.config import ConsumerConfig
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread

# Different queries in one worker; more than this would be connections that nobody comes back for.
_MOST = 8

_idle: dict[ConsumerConfig, NetworkClient] = {}
_owner = os.getpid()


@contextmanager
def connection(config: ConsumerConfig) -> Iterator[NetworkClient]:
    """A network client for the configuration, for the caller alone."""
    global _owner
    if _owner != os.getpid():
        _idle.clear()
        _owner = os.getpid()
    taken = _idle.pop(config, None) or NetworkClient(config)
    taken.rest(is_resting=False)
    try:
        yield taken
    except BaseException:
        _close(taken)
        raise
    taken.rest(is_resting=True)
    _idle[config] = taken
    while len(_idle) > _MOST:
        _close(_idle.pop(next(iter(_idle))))


def idle_count() -> int:
    """How many connections wait for a task."""
    return len(_idle)


def _close(network: NetworkClient) -> None:
    IoThread.get().run(network.close())

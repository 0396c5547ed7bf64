"""A unit test opens no socket: one that needs a broker, a server or a connection stands in the folder of its part.

Whoever binds or connects while a unit test runs is refused, and the test fails even if the refusal was caught on the
way. A pair of connected sockets is allowed, because every event loop has one to be woken by. Threads that an earlier
test left behind are let through: what they do is not this test's.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import uvloop

# uvloop connects in C, unseen by the socket module: there the loop's own calls are refused.
_DOORS = [
    *((socket.socket, name) for name in ("bind", "connect", "connect_ex", "listen", "sendto")),
    *(
        (loop, name)
        for loop in (asyncio.BaseEventLoop, uvloop.Loop)
        for name in ("create_connection", "create_server", "create_datagram_endpoint")
    ),
]
_HERE = Path(__file__).parent
_tried_by_test = pytest.StashKey[list[str]]()


class SocketOpened(RuntimeError):
    """A unit test tried to use the network."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Around the fixtures as well, whatever their scope; pytest calls this hook for the tests of all folders."""
    if not item.path.is_relative_to(_HERE):
        return (yield)
    tried = item.stash.setdefault(_tried_by_test, [])
    left_behind = set(threading.enumerate()) - {threading.current_thread()}

    def guarded(real: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() in left_behind:
                return real(*arguments, **options)
            tried.append(what)
            raise SocketOpened(f"{what}: a unit test opens no socket")

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _DOORS:
            patch.setattr(owner, name, guarded(getattr(owner, name), f"{owner.__name__}.{name}"))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    if tried := item.stash[_tried_by_test]:
        pytest.fail(f"a unit test opened a socket ({', '.join(tried)}); it belongs beside the tests of its part")
    return result

"""What a call of a consumer asks its facade to do: see ``consumer_calls``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, NamedTuple, TypeVar

R = TypeVar("R")


class OnIo(NamedTuple):
    """Run the coroutine on the I/O thread and send its result."""

    work: Coroutine[Any, Any, Any]


class UserCode(NamedTuple):
    """Call the function here, await what it returns if that can be awaited, and send None."""

    function: Callable[[], Awaitable[object] | object]


Call = Generator[OnIo | UserCode, Any, R]

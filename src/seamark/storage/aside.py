"""Work that a step of something longer needs done, and that may be done on another thread meanwhile.

Generators of the storage yield it where unfolding a batch takes long. It touches nothing of the log's. Who drives the
generator may run it elsewhere before going on; who does not need not care: it is then done when its result is asked
for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from seamark.errors import DecodeError
from seamark.wire.records.compression import LARGE_BYTES, Codec, Unfolded, unfold, unfolded_bound

T = TypeVar("T")


class Aside(Generic[T]):
    __slots__ = ("_error", "_is_done", "_result", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._is_done = False
        self._result: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        self._is_done = True
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error

    def result(self) -> T:
        """What the work returned; raises what it raised."""
        if not self._is_done:
            self.run()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


# None is a pause, after which others may have had their turn.
Pauses = Generator["Aside[Any] | None", None, T]


def unfolded_aside(codec: int, data: memoryview, max_bytes: int) -> Pauses[tuple[Unfolded, int] | None]:
    """Return what a batch's records unfold to, and how much that is; None if they cannot be unfolded."""
    try:
        aside = Aside(partial(unfold, Codec(codec), data, max_bytes))
        if unfolded_bound(codec, data, max_bytes) > LARGE_BYTES:
            yield aside
        return aside.result()
    except (DecodeError, ValueError):
        # ValueError: no such codec.
        return None


def at_once(steps: Pauses[T]) -> T:
    """Take all steps, and return what the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result

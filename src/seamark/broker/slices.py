"""Work that would hold up everybody else is done in slices: a little of it in each turn of the event loop.

A piece of work is an iterator whose steps are short. It is begun at once, because most answers are done in no time;
what is left then takes turns with the other long pieces of work, one slice of one of them per turn of the loop. A step
that is long in itself, such as handling a large request, has a turn of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar, cast

# How long a turn of the event loop may be kept, by the beginning of a piece of work and by a slice of the rest.
FIRST_SECONDS = 0.002
SLICE_SECONDS = 0.004
# Pieces of an answer from this size on are not copied.
_LARGE_PIECE = 1 << 16

A = TypeVar("A")
B = TypeVar("B")


class Slices:
    """Owned by the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Iterator[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def run(self, work: Iterator[None]) -> None:
        """Do all steps, now or in the turns that follow; who makes ``work`` takes care of its errors and its end."""
        if not _advance(work, FIRST_SECONDS):
            self._add(work)

    def later(self, step: Callable[[], None]) -> None:
        """Do it in a turn to come, as the only slice of that turn."""
        self._add(_work_of(step))

    def _add(self, work: Iterator[None]) -> None:
        self._waiting.append(work)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        work = self._waiting[0]
        try:
            is_done = _advance(work, SLICE_SECONDS)
        except BaseException:
            is_done = True
            raise
        finally:
            self._waiting.popleft()
            if not is_done:
                self._waiting.append(work)
            if self._waiting:
                self._loop.call_soon(self._turn)


def _work_of(step: Callable[[], None]) -> Iterator[None]:
    step()
    yield


def _advance(work: Iterator[None], seconds: float) -> bool:
    """Take steps for that long; whether the last one has been taken."""
    deadline = time.monotonic() + seconds
    return all(time.monotonic() < deadline for _ in work)


class _Lazily(Collection[B]):
    """See ``lazily``."""

    __slots__ = ("_count", "_elements")

    def __init__(self, count: int, elements: Iterable[B]) -> None:
        self._count = count
        self._elements = elements

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[B]:
        return iter(self._elements)

    def __contains__(self, item: object) -> bool:
        raise TypeError("elements that are made when they are written can only be counted and written")


def lazily(make: Callable[[A], B], wanted: Collection[A]) -> list[B]:
    """An array for an answer, whose elements are made one by one while it is written: in slices, and never all there.

    >>> len(lazily(str, [1, 2, 3]))
    3
    """
    return cast("list[B]", _Lazily(len(wanted), map(make, wanted)))


def counted_lazily(count: int, elements: Iterable[B]) -> list[B]:
    """As ``lazily``, for elements that come from a generator, which must give as many as are announced."""
    return cast("list[B]", _Lazily(count, elements))


class Chunks:
    """The pieces of a long answer, put together to a few large ones as they come."""

    __slots__ = ("_joined", "pieces", "size")

    def __init__(self) -> None:
        # Room for the head, which is written when the size is known.
        self._joined: list[bytes | memoryview] = [b""]
        self.pieces: list[bytes | memoryview] = []
        self.size = 0

    def join(self, above: int = 0) -> None:
        """Put together what has come since the last time, if it is more than so many pieces; large ones are not
        copied.
        """
        if len(self.pieces) <= above:
            return
        small: list[bytes | memoryview] = []
        for piece in self.pieces:
            self.size += len(piece)
            if len(piece) < _LARGE_PIECE:
                small.append(piece)
            else:
                self._joined += (b"".join(small), piece)
                small.clear()
        self._joined.append(b"".join(small))
        self.pieces.clear()

    def behind(self, head: bytes) -> list[bytes | memoryview]:
        """All of it, with its head."""
        self.join()
        self._joined[0] = head
        return [piece for piece in self._joined if piece]

"""Long answers, of which a little is made in each slice: elements made while they are written, pieces put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar, cast

# Pieces of an answer from this size on are not copied.
_LARGE_PIECE = 1 << 16

A = TypeVar("A")
B = TypeVar("B")


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
        raise TypeError("lazily created elements can only be counted and encoded")


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

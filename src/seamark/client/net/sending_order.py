"""Requests to one node are written in the order in which they were made, whatever each of them has to wait for.

A request may have to wait for a connection, for the end of a throttle, or for room in the socket, and one that comes
later can find all of that done first. Where order counts (of two commits the later one must win), a request takes its
place before it waits for anything and is written when it is the first; one that gives up leaves its place. Answers are
waited for outside of the line.

Owned by the I/O loop.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Place:
    """One request's place in the line; taken when it is made."""

    __slots__ = ("_is_first", "_line")

    def __init__(self, line: deque[Place]) -> None:
        self._line = line
        self._is_first = asyncio.Event()
        line.append(self)
        if line[0] is self:
            self._is_first.set()

    async def reached(self) -> None:
        """Wait until everybody before has been served or has gone."""
        await self._is_first.wait()

    def leave(self) -> None:
        """Let the next one go; does nothing the second time."""
        if self in self._line:
            self._line.remove(self)
            if self._line:
                self._line[0]._is_first.set()


class SendingOrder:
    """The line in front of one connection."""

    __slots__ = ("_line",)

    def __init__(self) -> None:
        self._line: deque[Place] = deque()

    def take_place(self) -> Place:
        return Place(self._line)

"""Tells open pages that there is something new: server-sent events, one short line per look.

What is new is not sent: the page asks for itself again, so there is one way to make a page and one place that escapes.
The number of open streams is bounded, since each of them holds a connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from seamark.dashboard.sight import Sight

MOST_STREAMS = 100
_LOOK_S = 0.25
# Without a line now and then a proxy in between takes the stream for dead.
_BEAT_S = 15.0


class Streams:
    """Counts open streams; ``end`` makes all of them end."""

    def __init__(self) -> None:
        self.open = 0
        self._is_ending = False

    def end(self) -> None:
        self._is_ending = True

    @property
    def is_full(self) -> bool:
        return self.open >= MOST_STREAMS

    async def of(self, sight: Sight, is_allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Lines of one stream, which ends when the session behind it does."""
        self.open += 1
        try:
            told = ""
            beat = 0.0
            yield b"retry: 2000\n\n"
            while not self._is_ending and is_allowed():
                version = sight.version
                if version != told:
                    told = version
                    beat = 0.0
                    yield f"event: look\ndata: {json.dumps({'version': version})}\n\n".encode()
                elif beat >= _BEAT_S:
                    beat = 0.0
                    yield b": still here\n\n"
                await asyncio.sleep(_LOOK_S)
                beat += _LOOK_S
        finally:
            self.open -= 1

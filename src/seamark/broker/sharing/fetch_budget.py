"""How much fetches may read while others have not been sent what was read for them.

A client asks for up to ``fetch.max.bytes`` and may take its time over the answer, which is in memory until then. All
such answers of all nodes together stay near one and a half times ``fetch.max.bytes``: who is alone gets what it asks
for, and everybody else two thirds of what is left. Nobody waits for room: as KIP-74 demands, an answer has one batch
at least, so consumers go on, in smaller steps, while others hold all the room there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Settings(Protocol):
    def __getitem__(self, name: str) -> Any: ...


class Unread(Protocol):
    """The connections of a node."""

    @property
    def unread_bytes(self) -> int: ...


class FetchBudget:
    """Owned by the event loop's thread; ``of_all_nodes`` may grow."""

    def __init__(self, settings: Settings, of_all_nodes: Sequence[Unread]) -> None:
        self._settings = settings
        self._of_all_nodes = of_all_nodes
        # Read for answers that are still being put together; the others are with their connections.
        self.held_bytes = 0

    def room(self, wanted_bytes: int) -> int:
        """How much of that may be read now."""
        held = self.held_bytes
        for connections in self._of_all_nodes:
            held += connections.unread_bytes
        if not held:
            return wanted_bytes
        limit: int = self._settings["fetch.max.bytes"] * 3 // 2
        return max(0, min(wanted_bytes, (limit - held) * 2 // 3))

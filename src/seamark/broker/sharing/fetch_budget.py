"""How much fetches may read while others have not been sent what was read for them.

A client asks for up to ``fetch.max.bytes`` and may take its time over the answer, which is in memory until then. All
such answers of all nodes together stay near one and a half times ``fetch.max.bytes``: who is alone gets what it asks
for, and everybody else two thirds of what is left. Nobody waits for room: as KIP-74 demands, an answer has one batch
at least, so consumers go on, in smaller steps, while others hold all the room there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.broker.config.settings import BrokerSettings
    from seamark.broker.node import Node


class FetchBudget:
    """Owned by the event loop's thread; ``nodes`` may grow."""

    def __init__(self, settings: BrokerSettings, nodes: Sequence[Node]) -> None:
        self._settings = settings
        self._nodes = nodes
        # Read for answers that are still being put together; the others are with their connections.
        self.held_bytes = 0

    def room(self, wanted_bytes: int) -> int:
        """How much of that may be read now."""
        held = self.held_bytes
        for node in self._nodes:
            held += node.connections.unread_bytes
        if not held:
            return wanted_bytes
        limit: int = self._settings["fetch.max.bytes"] * 3 // 2
        return max(0, min(wanted_bytes, (limit - held) * 2 // 3))

"""A request inside a simulated broker: the coordinator's token for it, and what is remembered until its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.coordinator.commands import Command

if TYPE_CHECKING:
    from seamark.coordinator.replies import Reply
    from seamark.simulation.world.books import Batch
    from seamark.simulation.world.network import Connection


class Request:
    """Compared by identity; one per delivery, so a duplicated request is two of them."""

    __slots__ = (
        "batch",
        "command",
        "connection",
        "correlation",
        "is_answered",
        "is_replied",
        "open_batch",
        "partition",
        "reply",
    )

    def __init__(self, connection: Connection, correlation: int, command: Command) -> None:
        self.connection = connection
        self.correlation = correlation
        self.command = command
        self.is_answered = False
        # The reply may leave as soon as those to earlier requests of the connection have left.
        self.is_replied = False
        self.reply: Reply | None = None
        # The offsets partition that decides it, or None when several may.
        self.partition: int | None = None
        # What the request made the coordinator append.
        self.batch: Batch | None = None
        # The newest open append when a stable fetch came in: it must be settled before the answer.
        self.open_batch: Batch | None = None

    def copied_to(self, connection: Connection) -> Request:
        """The same request once more, over another connection."""
        return Request(connection, self.correlation, self.command)

"""A request at the coordinator: its token there, with what is remembered until the reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seamark.coordinator.commands import Command
from seamark.simulation.world.books import Batch
from seamark.simulation.world.connections import Request


class Asked:
    """Compared by identity; implements ``seamark.broker.groups.runtime.Asker``."""

    __slots__ = ("_answer", "batch", "command", "is_answered", "open_batch", "partition", "request")

    def __init__(self, request: Request, answer: Callable[[Asked, Any], None]) -> None:
        self.request = request
        self.command: Command = request.command
        self._answer = answer
        self.is_answered = False
        # The offsets partition that decides it, or None when several may.
        self.partition: int | None = None
        # What was written for the request.
        self.batch: Batch | None = None
        # The newest open append when a stable fetch came in: it must be settled before the answer.
        self.open_batch: Batch | None = None

    def reply_value(self, value: Any) -> None:
        self._answer(self, value)

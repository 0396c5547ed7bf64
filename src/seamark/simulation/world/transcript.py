"""What happened in a lifetime, as tuples; text is made only when somebody wants to read it.

The digest covers every event, so two runs with equal digests took the same course.
"""

from __future__ import annotations

import hashlib
from typing import Any

Event = tuple[Any, ...]


class Transcript:
    """Events as (moment, kind, facts…), oldest first."""

    __slots__ = ("events",)

    def __init__(self) -> None:
        self.events: list[Event] = []

    def digest(self) -> str:
        """SHA-256 over the text of all events."""
        digest = hashlib.sha256()
        for event in self.events:
            digest.update(_line(event).encode())
        return digest.hexdigest()

    def text(self, last: int | None = None) -> str:
        """The events as lines, all or the last ones."""
        shown = self.events if last is None else self.events[-last:]
        lines = [_line(event) for event in shown]
        if len(shown) < len(self.events):
            lines.insert(0, f"… {len(self.events) - len(shown)} earlier events")
        return "\n".join(lines)


def _line(event: Event) -> str:
    moment_ms, kind, *facts = event
    return f"{moment_ms:>8} ms  {kind:<10} " + "  ".join(
        fact if isinstance(fact, str) else repr(fact) for fact in facts
    )

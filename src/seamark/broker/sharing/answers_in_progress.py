"""Long answers that are being written, and how much of them is in memory before any of it can be sent.

Writing takes turns, so the answers of all who ask at once grow side by side. Together they stay near
``MAX_BYTES``: beyond it all wait that have become long, except the one that began first, which ends and makes room, and
those of a party that has little under way: it must not wait for others. A short answer never waits. A Fetch is not
among them: its records have a budget of their own.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Protocol

from seamark.broker.sharing.turns import Share, Work

MAX_BYTES = 64 << 20
# The part of it that one party may always have.
_PARTY_PART = 4
# Below this an answer is short; as much may lie in a connection's send buffer.
SHORT_BYTES = 1 << 18


class Client(Protocol):
    """The connection that an answer goes to."""

    @property
    def share(self) -> Share: ...


class Answer(Protocol):
    """One that is being written; a ``RequestContext`` is one."""

    # Called once when the answer is with the connection, or will never be.
    on_end: Callable[[], None] | None

    @property
    def connection(self) -> Client: ...

    def __hash__(self) -> int: ...


class AnswersInProgress:
    """Owned by the event loop's thread."""

    def __init__(self) -> None:
        # By who is answered, the one that began first in front.
        self._sizes: OrderedDict[Answer, int] = OrderedDict()
        self._asleep: OrderedDict[Answer, Callable[[], None]] = OrderedDict()
        self._by_party: Counter[str] = Counter()
        self.byte_count = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def grown(self, answer: Answer, size: int) -> Room | None:
        """Take note of how long an answer has become; what to wait for before it goes on, if anything."""
        before = self._sizes.get(answer)
        if before is None:
            before = 0
            answer.on_end = partial(self._ended, answer)
        party = _party(answer)
        self._sizes[answer] = size
        self.byte_count += size - before
        self._by_party[party] += size - before
        if self.byte_count <= MAX_BYTES or next(iter(self._sizes)) is answer:
            return None
        if self._by_party[party] <= MAX_BYTES // _PARTY_PART:
            return None
        return Room(self._asleep, answer)

    def _ended(self, answer: Answer) -> None:
        size = self._sizes.pop(answer, 0)
        party = _party(answer)
        self.byte_count -= size
        self._by_party[party] -= size
        if not self._by_party[party]:
            del self._by_party[party]
        resume = self._asleep.pop(answer, None)
        if resume is not None:
            # Its connection is gone: it drops what it has.
            resume()
        first = next(iter(self._sizes), None)
        if first is not None and first in self._asleep:
            self._asleep.pop(first)()
        elif self._asleep and self.byte_count <= MAX_BYTES:
            self._asleep.popitem(last=False)[1]()


def _party(answer: Answer) -> str:
    return answer.connection.share.party


class Room:
    """What an answer waits for, as ``turns.Wait`` has it."""

    __slots__ = ("_answer", "_asleep")

    def __init__(self, asleep: dict[Answer, Callable[[], None]], answer: Answer) -> None:
        self._asleep = asleep
        self._answer = answer

    def begin(self, work: Work) -> bool:
        self._asleep[self._answer] = work.resume
        return True

"""What the simulated members of a lifetime share: time, chance, the log, the group, handlers, and what may go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol

from seamark.simulation.parallel.group import SimulatedGroup
from seamark.simulation.parallel.log import PartitionLog, SimulatedRecord
from seamark.simulation.parallel.threads import Threads
from seamark.simulation.parallel.truth import Truth
from seamark.simulation.world.transcript import Event
from seamark.topic_partition import TopicPartition

Report = Callable[[BaseException | None], None]


class HandlerOwner(Protocol):
    """The member whose handler runs."""

    name: str
    is_alive: bool


class Handlers(Protocol):
    """Runs calls: ``report`` is to be called once, with None or the error."""

    def start(self, member: HandlerOwner, records: list[SimulatedRecord], report: Report) -> None: ...

    def member_gone(self, member: HandlerOwner) -> None:
        """Its calls vanish with it."""


@dataclass(slots=True)
class Chances:
    """What may go wrong, as chances from 0 to 1; they change while a lifetime runs."""

    refused_letters: float = 0.0
    failures: float = 0.0
    hangs: float = 0.0
    # Of a handler process, in the course of a call.
    deaths: float = 0.0
    # That a poll raises an error, which passes by itself more often than not.
    failing_polls: float = 0.0
    # Partitions that cannot be read on.
    set_aside: set[TopicPartition] = field(default_factory=set)


class World(NamedTuple):
    loop: Threads
    rng: Random
    events: list[Event]
    truth: Truth
    logs: Mapping[TopicPartition, PartitionLog]
    group: SimulatedGroup
    handlers: Handlers
    chances: Chances
    # The longest poll of one partition.
    poll_records: int
    largest_record_bytes: int
    # Calls that members take beyond what their handlers can run, and keep until one is free.
    ahead: int
    # A member of this name has ended by itself; the reason is None if it was asked to.
    on_stopped: Callable[[str, str | None], None]
    # In how many processes of its own a member runs handlers; with 0 they run in the member itself.
    processes: int = 0

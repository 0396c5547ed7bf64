"""Records of ``__consumer_offsets`` made by hand, and a plain model of what their history says.

The model goes record by record with dictionaries; it shares nothing with the compiled loop that it is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from seamark.wire.offsets.offsets_topic import (
    MemberMetadata,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from seamark.wire.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment

NOW = 1_700_000_000_000


@dataclass(frozen=True)
class Commit:
    group: str
    topic: str
    partition: int
    offset: int | None
    at_ms: int = NOW
    metadata: str = ""

    def record(self) -> tuple[bytes, bytes | None]:
        key = offset_commit_key(self.group, self.topic, self.partition)
        if self.offset is None:
            return key, None
        return key, offset_commit_value(
            offset=self.offset, leader_epoch=3, metadata=self.metadata, commit_timestamp=self.at_ms
        )


@dataclass(frozen=True)
class Group:
    """``members`` maps a member id to its partitions, ((topic, partition), …); None is a tombstone."""

    group: str
    generation: int
    members: dict[str, tuple[tuple[str, int], ...]] | None = field(default_factory=dict)

    def record(self) -> tuple[bytes, bytes | None]:
        key = group_metadata_key(self.group)
        if self.members is None:
            return key, None
        people = [
            MemberMetadata(
                member_id=name, client_id=f"client of {name}", client_host="/10.0.0.1", session_timeout=45_000,
                rebalance_timeout=300_000, subscription=b"", assignment=_assignment(given),
            )
            for name, given in self.members.items()
        ]  # fmt: skip
        return key, group_metadata_value(
            protocol_type="consumer",
            generation=self.generation,
            protocol="range",
            leader=next(iter(self.members), None),
            current_state_timestamp=NOW,
            members=people,
        )


@dataclass(frozen=True)
class Junk:
    """A record that nobody can read."""

    key: bytes | None = b"\x00"

    def record(self) -> tuple[bytes | None, bytes | None]:
        return self.key, b"?"


Event = Commit | Group | Junk


def _assignment(given: tuple[tuple[str, int], ...]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in given:
        topics.setdefault(topic, []).append(partition)
    named = [TopicPartitions(topic=topic, partitions=partitions) for topic, partitions in topics.items()]
    return encode_assignment(Assignment(assigned_partitions=named))


def batch_of(placed: list[tuple[int, Event]], times_ms: list[int] | None = None) -> Any:
    """Records at their offsets as the history takes them."""
    from seamark.spark.lake.decode.decode import Records

    pairs = [event.record() for _, event in placed]
    return Records(
        np.array([offset for offset, _ in placed], np.int64),
        np.array(times_ms or [NOW] * len(placed), np.int64),
        pa.array([key for key, _ in pairs], pa.binary()),
        pa.array([value for _, value in pairs], pa.binary()),
    )


def expected_rows(placed: list[tuple[int, Event]]) -> dict[str, list[dict[str, Any]]]:
    """What the tables hold of the columns that depend on what came before."""
    last: dict[tuple[str, str, int], tuple[int, Commit]] = {}
    groups: dict[str, tuple[int, Group]] = {}
    rows: dict[str, list[dict[str, Any]]] = {"commits": [], "generations": [], "rejects": []}
    seen: set[int] = set()
    for offset, event in placed:
        seen.add(offset)
        if isinstance(event, Junk):
            rows["rejects"].append({"offsets_offset": offset})
        elif isinstance(event, Group):
            place, before = groups.get(event.group, (-1, None))
            was = set(before.members or {}) if before else set()
            now = set(event.members or {})
            rows["generations"].append(
                {
                    "offsets_offset": offset, "group": event.group, "tombstone": event.members is None,
                    "generation": None if event.members is None else event.generation,
                    "joined": sorted(now - was), "gone": sorted(was - now),
                    "complete": all(each in seen for each in range(place + 1, offset)),
                }
            )  # fmt: skip
            groups[event.group] = (offset, event)
        else:
            rows["commits"].append(_commit_row(offset, event, last, groups, seen))
            last[event.group, event.topic, event.partition] = (offset, event)
    return rows


def _commit_row(
    offset: int,
    event: Commit,
    last: dict[tuple[str, str, int], tuple[int, Commit]],
    groups: dict[str, tuple[int, Group]],
    seen: set[int],
) -> dict[str, Any]:
    place, before = last.get((event.group, event.topic, event.partition), (-1, None))
    previous = before.offset if before else None
    has_delta = previous is not None and event.offset is not None
    _, group = groups.get(event.group, (-1, None))
    owners = [name for name, given in (group.members or {}).items() if (event.topic, event.partition) in given] if (
        group
    ) else []  # fmt: skip
    return {
        "offsets_offset": offset, "group": event.group, "topic": event.topic, "partition": event.partition,
        "offset": event.offset, "tombstone": event.offset is None, "previous_offset": previous,
        "delta": event.offset - previous if has_delta else None,
        "since_previous_ms": event.at_ms - before.at_ms if has_delta and before else None,
        "generation": None if group is None or group.members is None else group.generation,
        "owner": owners[-1] if owners else None,
        "owner_client": f"client of {owners[-1]}" if owners else None,
        "origin": "unknown" if group is None else "member" if owners else "outside",
        "complete": all(each in seen for each in range(place + 1, offset)),
    }  # fmt: skip

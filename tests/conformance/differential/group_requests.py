"""Group requests as clients send them, in the fields that a version has; scripts change what they want to be wrong."""

from __future__ import annotations

from typing import Any

from seamark.wire.protocol.consumer_protocol import Subscription, encode_subscription
from tests.conformance.differential.script import Recorder

NOBODY = "nobody"
RANGE = "range"


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=list(topics)))


def join_fields(group: str, member: str = "", version: int = 9, **more: Any) -> dict[str, Any]:
    """A JoinGroup that a consumer would send."""
    fields: dict[str, Any] = {
        "group_id": group,
        "member_id": member,
        "session_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": RANGE, "metadata": subscription("t")}],
    }
    if version >= 1:
        fields["rebalance_timeout_ms"] = 30_000
    return fields | more


def join(recorder: Recorder, group: str, version: int, note: str = "", *, on: str = "main", **more: Any) -> Any:
    """Join as a new member, coming back with the id where the version wants that."""
    answer = recorder.ask("JoinGroup", version, f"{note} first", on=on, **join_fields(group, version=version, **more))
    if answer.error_code == 79:
        more["member_id"] = answer.member_id
        fields = join_fields(group, version=version, **more)
        answer = recorder.ask("JoinGroup", version, f"{note} with its id", on=on, **fields)
    return answer


def sync_fields(group: str, joined: Any, version: int, assignments: dict[str, bytes] | None = None, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "assignments": [
            {"member_id": member, "assignment": assignment} for member, assignment in (assignments or {}).items()
        ],
    }
    if version >= 5:
        fields |= {"protocol_type": "consumer", "protocol_name": RANGE}
    return fields | more


def commit_fields(group: str, topic: str, version: int, *partitions: int, **more: Any) -> dict[str, Any]:
    partition_fields: dict[str, Any] = {"committed_offset": more.pop("offset", 42), "committed_metadata": "here"}
    partition_fields["committed_metadata"] = more.pop("metadata", "here")
    if version >= 6:
        partition_fields["committed_leader_epoch"] = more.pop("epoch", 3)
    topics = [{"name": topic, "partitions": [{"partition_index": each, **partition_fields} for each in partitions]}]
    return {"group_id": group, "topics": topics} | more


def fetch_fields(group: str, version: int, topics: dict[str, list[int]] | None) -> dict[str, Any]:
    asked = None
    if topics is not None:
        asked = [{"name": name, "partition_indexes": partitions} for name, partitions in topics.items()]
    if version < 8:
        return {"group_id": group, "topics": asked}
    return {"groups": [{"group_id": group, "topics": asked}]}

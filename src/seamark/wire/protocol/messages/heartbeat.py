"""Heartbeat (12): a member says it is alive and learns whether a rebalance is under way (A28, A29).

v0  group, generation and member
v1  the response adds throttling
v2  throttling happens after the response is sent
v3  adds the instance id
v4  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, field, int16, int32, string


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)

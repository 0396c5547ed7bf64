"""FindCoordinator (10): which broker coordinates a group or a transaction (A15, A16, A21, A22, A36).

v0  a group's coordinator, for one key
v1  adds the key type (0 group, 1 transaction); the response adds throttling and an error message
v2  throttling happens after the response is sent
v3  flexible
v4  many keys at once
v5  TRANSACTION_ABORTABLE is a possible answer
v6  key type 2, share
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int8, int16, int32, string


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    key: str = field(string, versions="0-3")
    key_type: int = field(int8, versions="1+")
    coordinator_keys: list[str] = field(array(string), versions="4+")


class FindCoordinatorResponseCoordinator(Struct):
    key: str = field(string)
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16, versions="0-3")
    error_message: str | None = field(string, versions="1-3", nullable="1-3", ignorable=True)
    node_id: int = field(int32, versions="0-3")
    host: str = field(string, versions="0-3")
    port: int = field(int32, versions="0-3")
    coordinators: list[FindCoordinatorResponseCoordinator] = field(
        array(FindCoordinatorResponseCoordinator), versions="4+"
    )

"""InitProducerId (22): an id and epoch for an idempotent or transactional producer.

v0  transactional id (null for a merely idempotent producer) and its timeout
v1  throttling happens after the response is sent
v2  flexible
v3  a producer may name its id and epoch to go on with
v4  PRODUCER_FENCED is a possible answer
v5  TRANSACTION_ABORTABLE is a possible answer
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, field, int16, int32, int64, string


class InitProducerIdRequest(Message, api_key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = field(string, nullable="0+")
    transaction_timeout_ms: int = field(int32)
    producer_id: int = field(int64, versions="3+", default=-1)
    producer_epoch: int = field(int16, versions="3+", default=-1)


class InitProducerIdResponse(Message, api_key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, default=-1)
    producer_epoch: int = field(int16)

"""The records of control batches: where a transaction was committed or aborted.

A marker's key says its version and type, its value the version and the epoch of the coordinator that wrote it. Types
and versions may grow: a marker of another type is returned with its number and no epoch, and fields behind the known
ones of a newer version are left alone, as Kafka's own reader does.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Literal, NamedTuple

from seamark.errors import BadValue, EncodeError, OutOfRange, Truncated
from seamark.wire.records.record_batch import Record
from seamark.wire.records.record_writer import encode_batch

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_ABORT, _COMMIT = 0, 1

Kind = Literal["abort", "commit", "other"]


class ControlMarker(NamedTuple):
    """``coordinator_epoch`` is None for ``other``: only the two transaction markers have one."""

    kind: Kind
    type_number: int
    coordinator_epoch: int | None


def encode_control_marker(
    kind: Literal["abort", "commit"],
    *,
    offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Return the control batch, of one record, that ends a producer's transaction in a partition."""
    if kind not in ("abort", "commit"):
        raise EncodeError("kind", kind, "it must be 'commit' or 'abort'")
    try:
        value = _VALUE.pack(0, coordinator_epoch)
    except struct_error:
        raise OutOfRange("coordinator_epoch", coordinator_epoch, "it must be a 32-bit integer") from None
    record = Record(offset, timestamp_ms, 0, _KEY.pack(0, _COMMIT if kind == "commit" else _ABORT), value)
    return encode_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=True,
        is_control=True,
    )


def decode_control_marker(record: Record) -> ControlMarker:
    """Return what a record of a control batch says; positions in errors count in its key or value."""
    if record.key is None or len(record.key) < _KEY.size:
        raise Truncated("marker_key", 0, f"only {len(record.key or b'')} of {_KEY.size} bytes are present")
    version, type_number = _KEY.unpack_from(record.key)
    if version < 0:
        raise BadValue("marker_key.version", 0, f"{version} is negative")
    if type_number not in (_ABORT, _COMMIT):
        return ControlMarker("other", type_number, None)
    if record.value is None or len(record.value) < _VALUE.size:
        raise Truncated("marker_value", 0, f"only {len(record.value or b'')} of {_VALUE.size} bytes are present")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise BadValue("marker_value.version", 0, f"{version} is negative")
    return ControlMarker("commit" if type_number == _COMMIT else "abort", type_number, coordinator_epoch)

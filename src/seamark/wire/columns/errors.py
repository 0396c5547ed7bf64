"""What a kernel found wrong, as a ``DecodeError``: the same class, field and position that the pure-Python reader
names.

A position inside compressed records has no place in the caller's buffer: the error then has the position where they
start and its reason the place in the decompressed ones.
"""

from __future__ import annotations

from seamark.errors import BadLength, BadText, BadValue, DecodeError, OverLimit, TrailingBytes, Truncated
from seamark.wire.columns import kernels

_FIELDS = {
    kernels.F_LENGTH: "records[{record}].length",
    kernels.F_ATTRIBUTES: "records[{record}].attributes",
    kernels.F_TIMESTAMP: "records[{record}].timestamp_delta",
    kernels.F_OFFSET: "records[{record}].offset_delta",
    kernels.F_KEY: "records[{record}].key_length",
    kernels.F_VALUE: "records[{record}].value_length",
    kernels.F_HEADER_COUNT: "records[{record}].header_count",
    kernels.F_HEADER_KEY: "records[{record}].headers[{header}].key_length",
    kernels.F_HEADER_KEY_TEXT: "records[{record}].headers[{header}].key",
    kernels.F_HEADER_VALUE: "records[{record}].headers[{header}].value_length",
    kernels.F_RECORD: "records[{record}]",
    kernels.F_RECORDS: "records",
}

_KINDS: dict[int, tuple[type[DecodeError], str]] = {
    kernels.ENDS_IN_VARINT: (Truncated, "the bytes end inside a varint"),
    kernels.LONG_VARINT: (BadLength, "the varint has more bytes than its type allows"),
    kernels.WIDE_VARINT: (BadLength, "the varint has more bits than its type"),
    kernels.NEGATIVE: (BadLength, "{number} is negative"),
    kernels.PAST_END: (BadLength, "{number} is more than the remaining bytes can hold"),
    kernels.EMPTY_RECORD: (Truncated, "the record is empty"),
    kernels.LEFT_OVER: (TrailingBytes, "{number} extra bytes"),
    kernels.OFFSET_ORDER: (BadValue, "{number} does not follow the previous delta"),
    kernels.OFFSET_BEYOND: (BadValue, "{number} is beyond the last of the batch"),
    kernels.TIMESTAMP_RANGE: (BadValue, "the timestamp does not fit the column"),
    kernels.NOT_UTF8: (BadText, "the header key is not UTF-8"),
    kernels.MANY_HEADERS: (OverLimit, "the record has {number} headers, at most {max_headers} are allowed"),
    kernels.CHANGED: (BadValue, "the buffer was written to while it was decoded"),
}


def kernel_error(code: int, state: list[int], compressed_at: int | None, max_headers: int) -> DecodeError:
    """The error for a kernel's return ``code`` and the ``state`` it left."""
    kind, reason = _KINDS[code]
    field_number = state[kernels.S_ERROR_FIELD]
    if code == kernels.PAST_END and field_number == kernels.F_LENGTH:
        kind = Truncated
    field = _FIELDS[field_number].format(record=state[kernels.S_ERROR_RECORD], header=state[kernels.S_ERROR_HEADER])
    reason = reason.format(number=state[kernels.S_ERROR_NUMBER], max_headers=max_headers)
    position = state[kernels.S_ERROR_POSITION]
    if compressed_at is None:
        return kind(field, position, reason)
    return kind(field, compressed_at, f"{reason} (byte {position} of the decompressed records)")

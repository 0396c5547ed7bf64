"""Kafka's record batches (magic 2) both ways: the one module to import for records as objects.

``record_batch`` owns the fixed header and the walk over batches, ``record_reader`` and ``record_writer`` the records
behind it, ``control_markers`` what a control batch says. Columns are decoded elsewhere, from the same headers.

>>> batch = encode_batch([Record(7, timestamp_ms=1700000000000, key=b"k", value=b"v", headers=[("h", None)])])
>>> decode_batch(batch)
[Record(offset=7, timestamp_ms=1700000000000, timestamp_type=0, key=b'k', value=b'v', headers=[('h', None)])]
"""

from __future__ import annotations

from seamark.wire.records.compression import DEFAULT_MAX_DECOMPRESSED, Codec
from seamark.wire.records.control_markers import ControlMarker, decode_control_marker, encode_control_marker
from seamark.wire.records.record_batch import BatchHeader, Record, check_crc, read_header, scan_batches
from seamark.wire.records.record_cursor import MAX_HEADERS_PER_RECORD
from seamark.wire.records.record_reader import RecordSlices, decode_batch, decode_records, read_records
from seamark.wire.records.record_writer import encode_batch, rebase, restamp

__all__ = [
    "DEFAULT_MAX_DECOMPRESSED",
    "MAX_HEADERS_PER_RECORD",
    "BatchHeader",
    "Codec",
    "ControlMarker",
    "Record",
    "RecordSlices",
    "check_crc",
    "decode_batch",
    "decode_control_marker",
    "decode_records",
    "encode_batch",
    "encode_control_marker",
    "read_header",
    "read_records",
    "rebase",
    "restamp",
    "scan_batches",
]

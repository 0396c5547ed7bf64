"""Records as text, one per line: what ``seamark produce`` reads, and the form of bytes in JSON.

JSON is one object per line with ``value`` (null for a tombstone), and if wanted ``key``, ``headers`` (pairs of a name
and a value), ``partition`` and ``timestamp_ms``. ``topic`` and ``offset``, which ``consume --json`` writes, are read
over. Bytes that are no text are ``{"base64": …}``. A line that is not exactly that is refused with its number: a
misspelt ``value`` must not become a tombstone.
"""

from __future__ import annotations

import base64
import binascii
import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from seamark.errors import UsageError
from seamark.json_fields import no_field_twice
from seamark.suggest import unknown

FORMS = ("lines", "json", "csv")
_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms", "topic", "offset")
_COLUMNS = ("key", "value")


class RecordLine(NamedTuple):
    """One record, and the number of the line it ends on."""

    number: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def record_lines(source: Iterable[str], form: str, key_ends: str = "") -> Iterator[RecordLine]:
    """The records of a text; UsageError names the line that is none."""
    number = 0

    def counted() -> Iterator[str]:
        nonlocal number
        for text in source:
            number += 1
            yield text

    try:
        yield from _csv_lines(counted()) if form == "csv" else _plain_lines(counted(), form, key_ends)
    except UnicodeDecodeError as error:
        raise UsageError(f"line {number + 1} or one soon after it: the input is not UTF-8 ({error.reason})") from None
    except UnicodeEncodeError:
        # Standard input that Python reads leniently has half characters in place of such bytes.
        raise UsageError(f"line {number}: the input is not UTF-8") from None


def _plain_lines(source: Iterable[str], form: str, key_ends: str) -> Iterator[RecordLine]:
    for number, raw in enumerate(source, 1):
        text = raw.rstrip("\r\n")
        if form == "json":
            if text.strip():
                yield _json_line(text, number)
        elif key_ends:
            key, mark, value = text.partition(key_ends)
            if not mark:
                raise UsageError(f"line {number}: no {key_ends!r} between key and value")
            yield RecordLine(number, key.encode(), value.encode())
        else:
            yield RecordLine(number, None, text.encode())


def _json_line(text: str, number: int) -> RecordLine:
    try:
        fields = _fields(text)
        return RecordLine(
            number,
            _bytes_of("key", fields.get("key")),
            _bytes_of("value", fields["value"]),
            _headers(fields.get("headers")),
            _number("partition", fields.get("partition"), 2**31),
            _number("timestamp_ms", fields.get("timestamp_ms"), 2**63),
        )
    except UsageError as error:
        raise UsageError(f"line {number}: {error}") from None


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text, object_pairs_hook=no_field_twice)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise UsageError(f'must be an object such as {{"key": "k", "value": "v"}}, not {text.strip()[:40]}')
    for name in fields:
        if name not in _FIELDS:
            raise UsageError(unknown("field", name, _FIELDS))
    if "value" not in fields:
        raise UsageError('"value" is missing; write a tombstone as "value": null')
    return fields


def _bytes_of(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict) and set(value) == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise UsageError(f"{name!r} is not valid base64: {value['base64']!r}") from None
    try:
        return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name!r} contains an unpaired surrogate, which cannot be encoded") from None


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    if headers is None:
        return ()
    is_pairs = isinstance(headers, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in headers)
    if not is_pairs or not all(isinstance(name, str) for name, _ in headers):
        raise UsageError(
            f'\'headers\' must be a list of pairs such as [["name", "value"]], not {json.dumps(headers)[:40]}'
        )
    return tuple((name, _bytes_of(f"headers: {name}", value)) for name, value in headers)


def _number(name: str, value: Any, end: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < end:
        raise UsageError(f"{name!r} must be an integer >= 0 or null, got {json.dumps(value)[:40]}")
    return value


def _csv_lines(source: Iterable[str]) -> Iterator[RecordLine]:
    reader = csv.reader(source)
    try:
        columns = next(reader, [])
        for name in columns:
            if name not in _COLUMNS:
                raise UsageError(f"line 1: {unknown('column', name, _COLUMNS)}")
            if columns.count(name) > 1:
                raise UsageError(f"line 1: column {name!r} appears twice")
        if "value" not in columns:
            raise UsageError("line 1: the header of a CSV file must contain the column value")
        for row in reader:
            if not row:
                continue
            if len(row) != len(columns):
                raise UsageError(f"line {reader.line_num}: {len(row)} fields, but the header has {len(columns)}")
            fields = dict(zip(columns, row, strict=True))
            key = fields.get("key")
            yield RecordLine(reader.line_num, key.encode() if key else None, fields["value"].encode())
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num}: not CSV ({error})") from None


def json_of(content: bytes | None) -> Any:
    """Bytes as they stand in JSON."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}

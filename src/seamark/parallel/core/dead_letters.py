"""Dead letters: a record that was given up, with headers that say where it came from and why it failed.

Key, value and the record's own headers are kept as they were; ours start with ``seamark-dead-letter-`` and come behind
them. All are text in UTF-8, so that any tool can show them. Lengths are bounded: a dead letter must not become too
large for a topic because its error was long.

    source-topic source-partition source-offset source-timestamp-ms     where it stands in the log
    group attempts failed-at-ms                                         who tried, how often, and when it was given up
    error-type error stack                                              of the last attempt
    replays                                                             how often it was put back before this failure

A replay puts the record back into its source topic, or another, with its own headers and ``replays``, raised by one: a
record that fails again says so, and one that fails again and again can be held back.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import NamedTuple

from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.parallel.core.ports import Headers
from seamark.topic_partition import TopicPartition

PREFIX = "seamark-dead-letter-"
REPLAYS = PREFIX + "replays"
MAX_ERROR_BYTES = 1_024
MAX_STACK_BYTES = 8_192
_CUT = "\n  …\n"
MAX_REPLAYS = 5


class Provenance(NamedTuple):
    """Where a dead letter came from and why it is dead."""

    source: TopicPartition
    offset: int
    timestamp_ms: int
    group: str
    attempts: int
    failed_at_ms: int
    error_type: str
    error: str
    stack: str
    replays: int = 0


class NotReplayable(SeamarkError):
    """The record cannot be put back; the sentence says why."""


class Replay(NamedTuple):
    """What to produce to put a dead letter back. The partition is left to the key, as with the first writing."""

    topic: str
    headers: list[tuple[str, bytes | None]]


def provenance_of(
    source: TopicPartition,
    offset: int,
    timestamp_ms: int,
    headers: Headers,
    error: BaseException,
    *,
    group: str,
    attempts: int,
    failed_at_ms: int,
) -> Provenance:
    return Provenance(
        source,
        offset,
        timestamp_ms,
        group,
        attempts,
        failed_at_ms,
        f"{type(error).__module__}.{type(error).__qualname__}",
        trimmed(_text_of(error), MAX_ERROR_BYTES),
        trimmed("".join(traceback.format_exception(error)), MAX_STACK_BYTES),
        replay_count(headers),
    )


def encode(provenance: Provenance, headers: Headers) -> list[tuple[str, bytes | None]]:
    """The record's own ``headers`` with the provenance behind them, in place of an older one."""
    fields = {
        "source-topic": provenance.source.topic,
        "source-partition": str(provenance.source.partition),
        "source-offset": str(provenance.offset),
        "source-timestamp-ms": str(provenance.timestamp_ms),
        "group": provenance.group,
        "attempts": str(provenance.attempts),
        "failed-at-ms": str(provenance.failed_at_ms),
        "error-type": provenance.error_type,
        "error": provenance.error,
        "stack": provenance.stack,
        "replays": str(provenance.replays),
    }
    return own_headers(headers) + [
        (PREFIX + name, text.encode("utf-8", "backslashreplace")) for name, text in fields.items()
    ]


def decode(headers: Headers) -> Provenance | None:
    """The provenance in a record's headers; None if there is none or it is not whole: the record is not ours."""
    fields = {
        name.removeprefix(PREFIX): value.decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(PREFIX) and value is not None
    }
    try:
        return Provenance(
            TopicPartition(fields["source-topic"], int(fields["source-partition"])),
            int(fields["source-offset"]),
            int(fields["source-timestamp-ms"]),
            fields["group"],
            int(fields["attempts"]),
            int(fields["failed-at-ms"]),
            fields["error-type"],
            fields["error"],
            fields["stack"],
            int(fields.get("replays", "0")),
        )
    except (KeyError, ValueError):
        return None


def own_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers that the record had before we touched it."""
    return [(name, value) for name, value in headers if not name.startswith(PREFIX)]


def replay_count(headers: Headers) -> int:
    """How often the record was put back; 0 if the header is missing or is not a count."""
    for name, value in headers:
        if name == REPLAYS and value is not None and value.isdigit() and len(value) <= 9:
            return int(value)
    return 0


def replay(headers: Headers, *, to: str | None = None, max_replays: int = MAX_REPLAYS) -> Replay:
    """How to put a dead letter back into the topic it came from, or into ``to``."""
    provenance = decode(headers)
    if provenance is None:
        raise NotReplayable("the record has no source headers: it was not written as a dead letter by Seamark")
    if provenance.replays >= max_replays:
        raise NotReplayable(
            f"{provenance.source} offset {provenance.offset} was replayed {counted(provenance.replays, 'time')} and "
            "failed each time"
        )
    replays = (REPLAYS, str(provenance.replays + 1).encode())
    return Replay(to or provenance.source.topic, [*own_headers(headers), replays])


def trimmed(text: str, max_bytes: int) -> str:
    """``text`` in at most ``max_bytes`` bytes: a quarter of the room for its beginning, the rest for its end.

    The end of a stack says what failed, the beginning who called.
    """
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    room = max_bytes - len(_CUT.encode())
    head = encoded[: room // 4].decode("utf-8", "ignore")
    tail = encoded[-(room - room // 4) :].decode("utf-8", "ignore")
    return head + _CUT + tail


def size_bytes(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
    """What a dead letter holds in memory until it is written."""
    own = len(key or b"") + len(value or b"")
    return own + sum(len(name) + len(content or b"") for name, content in headers)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - an error whose __str__ raises must still reach its dead letter
        return f"(its __str__ raised {type(broken).__name__})"

"""How a handler is called: where it runs, what it is given, and at which line it stands.

A record comes out of the port as bytes; keys and values are made for the handler alone, so a record that cannot be read
fails as its handler would, and is retried, parked or written to the dead-letter topic as it came.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import FrameType
from typing import Any, Literal

from seamark.errors import ConfigError, SeamarkError, error_text
from seamark.parallel.core.handler_kinds import is_async, never_runs
from seamark.parallel.core.work import InFlightRecord
from seamark.parallel.settings import Batch

Handler = Callable[[Any], Any]
Deserializer = Callable[[bytes], Any]
RunIn = Literal["auto", "threads", "loop", "processes"]
RUN_IN = ("auto", "threads", "loop", "processes")


class UnreadableRecord(SeamarkError):
    """A key or value could not be deserialized; the cause is chained."""

    def __init__(self, place: str, part: str, reason: str) -> None:
        super().__init__(f"the {part} of {place} cannot be deserialized: {reason}")
        self.place = place
        self.part = part
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnreadableRecord], tuple[str, str, str]]:
        return type(self), (self.place, self.part, self.reason)


def check_handler(handler: Handler) -> None:
    """ConfigError for what cannot be a handler."""
    if not callable(handler):
        raise ConfigError("handler", handler, "is not callable")
    reason = never_runs(handler)
    if reason is not None:
        raise ConfigError("handler", handler, reason)


def where_to_run(handler: Handler, run_in: str) -> Literal["threads", "loop", "processes"]:
    """Settles ``run_in="auto"``, and refuses what cannot be."""
    check_handler(handler)
    if run_in not in RUN_IN:
        raise ConfigError("run_in", run_in, f"must be one of {', '.join(RUN_IN)}")
    if is_async(handler):
        if run_in in ("threads", "processes"):
            raise ConfigError("run_in", run_in, "is not supported for an async handler, which runs on an event loop")
        return "loop"
    return "threads" if run_in == "auto" else run_in  # type: ignore[return-value]


class Argument:
    """Makes what the handler is given from the records of a call. Can be pickled if its deserializers can."""

    def __init__(
        self, batch: Batch | None = None, key: Deserializer | None = None, value: Deserializer | None = None
    ) -> None:
        for option, deserializer in (("key", key), ("value", value)):
            if deserializer is not None:
                _check_deserializer(option, deserializer)
        self._is_batch = batch is not None
        self._is_arrow = batch is not None and batch.arrow
        self._key = key
        self._value = value

    @property
    def is_plain(self) -> bool:
        """One record as it was polled: the commonest case, which pools treat themselves."""
        return not self._is_batch and self._key is None and self._value is None

    @property
    def is_arrow(self) -> bool:
        return self._is_arrow

    @property
    def has_deserializers(self) -> bool:
        return self._key is not None or self._value is not None

    def of_works(self, works: Sequence[InFlightRecord]) -> Any:
        if self._is_arrow:
            from seamark.parallel.core.columns import batch_of_works

            return batch_of_works(works)
        return self.of_records([work.record for work in works])

    def of_records(self, records: list[Any]) -> Any:
        if self._is_arrow:
            from seamark.parallel.core.columns import batch_of_records

            return batch_of_records(records)
        if self._key is not None or self._value is not None:
            records = [self._readable(record) for record in records]
        return records if self._is_batch else records[0]

    def _readable(self, record: Any) -> Any:
        part, key, value = "key", record.key, record.value
        try:
            if self._key is not None and key is not None:
                key = self._key(key)
            part = "value"
            if self._value is not None and value is not None:
                value = self._value(value)
        except Exception as error:
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise UnreadableRecord(place, part, error_text(error)) from error
        return type(record)(
            record.topic,
            record.partition,
            record.offset,
            key,
            value,
            record.headers,
            record.timestamp_ms,
            record.timestamp_type,
            record.leader_epoch,
        )


def _check_deserializer(option: str, deserializer: Deserializer) -> None:
    reason = (
        "is async: a deserializer must return the value itself" if is_async(deserializer) else never_runs(deserializer)
    )
    if reason is not None:
        raise ConfigError(option, deserializer, reason)


_LIBRARY = sysconfig.get_path("stdlib")


def line_of_thread(frame: FrameType) -> str | None:
    """``frame`` is the innermost of a thread."""
    frames = []
    step: FrameType | None = frame
    while step is not None:
        frames.append(step)
        step = step.f_back
    return _line_of(frames)


def line_of_coroutine(coroutine: Coroutine[Any, Any, Any]) -> str | None:
    """Where it waits."""
    frames: list[FrameType] = []
    step: Any = coroutine
    while step is not None:
        frame = getattr(step, "cr_frame", None) or getattr(step, "gi_frame", None)
        if frame is not None:
            frames.insert(0, frame)
        step = getattr(step, "cr_await", None) or getattr(step, "gi_yieldfrom", None)
    return _line_of(frames)


def _line_of(frames: Iterable[FrameType]) -> str | None:
    """The first of the frames, innermost first, that is not the standard library's."""
    innermost = None
    for frame in frames:
        code = frame.f_code
        innermost = innermost or f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
        if not code.co_filename.startswith(_LIBRARY) or "site-packages" in code.co_filename:
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
    return innermost

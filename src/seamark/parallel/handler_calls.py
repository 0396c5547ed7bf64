"""How a handler is called: what it is given, what its answer means, and which kind it is.

A record comes out of the port as bytes; keys and values are made for the handler alone, so a record that cannot be read
fails as its handler would, and is retried, parked or written to the dead-letter topic as it came. An answer of a
handler means nothing, but something to await from a plain function is a mistake that would lose work silently.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

from seamark.errors import ConfigError, SeamarkError, UsageError
from seamark.parallel.settings import Batch
from seamark.parallel.work import Work

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


class AnswerToAwait(UsageError):
    """A plain function returned something to await, which nobody awaits."""


def is_async(handler: Handler) -> bool:
    """Whether calling it gives a coroutine: also of objects with an async ``__call__`` and of partials."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def where_to_run(handler: Handler, run_in: str) -> Literal["threads", "loop", "processes"]:
    """Settles ``run_in="auto"``, and refuses what cannot be."""
    if not callable(handler):
        raise ConfigError("handler", handler, "cannot be called")
    if run_in not in RUN_IN:
        raise ConfigError("run_in", run_in, f"is not one of {', '.join(RUN_IN)}")
    if is_async(handler):
        if run_in in ("threads", "processes"):
            raise ConfigError("run_in", run_in, "does not go with an async handler, which runs on a loop")
        return "loop"
    return "threads" if run_in == "auto" else run_in  # type: ignore[return-value]


class Argument:
    """Makes what the handler is given from the records of a call. Can be pickled if its deserializers can."""

    def __init__(
        self, batch: Batch | None = None, key: Deserializer | None = None, value: Deserializer | None = None
    ) -> None:
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

    def of_works(self, works: Sequence[Work]) -> Any:
        if self._is_arrow:
            from seamark.parallel.columns import batch_of_works

            return batch_of_works(works)
        return self.of_records([work.record for work in works])

    def of_records(self, records: list[Any]) -> Any:
        if self._is_arrow:
            from seamark.parallel.columns import batch_of_records

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
            raise UnreadableRecord(place, part, f"{type(error).__name__}: {error}") from error
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


def check_answer(answer: object) -> None:
    """What a plain function returned; AnswerToAwait if somebody would have to wait for it."""
    if answer is not None and inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise AnswerToAwait("the handler is a plain function but returned something to await: declare it async def")

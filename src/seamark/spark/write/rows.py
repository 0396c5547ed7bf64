"""From Arrow batches to records in a producer's buffer, and from its acknowledgements to errors.

Values without keys, headers and partitions for one topic go to the producer as a run, which is several times as fast as
one by one. Acknowledgements are looked at while further batches are sent, so that what is remembered stays bounded and
a refused record ends the task early. ``finish`` returns only when everything is acknowledged.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from seamark.errors import SeamarkError
from seamark.spark.write.producers import wait_for_topic

if TYPE_CHECKING:
    import pyarrow as pa

    from seamark.client import Producer

# Arrow batches (of 10,000 rows by Spark's default) whose acknowledgements may be outstanding.
_UNSETTLED = 8
# The producer gives up by itself at delivery.timeout.ms; this much later something is wrong with the producer.
_GRACE_S = 30.0


class BadRow(SeamarkError):
    """A row that cannot be a record."""


class Sent(Protocol):
    """What the producer gives for a record or for a run of them."""

    def done(self) -> bool: ...

    def exception(self, timeout: float | None = None) -> Exception | None: ...


class RowSender:
    """Sends the rows of one task; ``topic`` is for all of them, or None where each row names its own."""

    def __init__(self, producer: Producer, topic: str | None) -> None:
        self._producer = producer
        self._topic = topic
        self._patience = producer.config.delivery_timeout_ms / 1000 + _GRACE_S
        # A partitioner of the user's own is asked for every record.
        self._may_run = producer.config.partitioner_class in (None, "")
        self._known: set[str] = set()
        self._unsettled: deque[list[Sent]] = deque()
        self.count = 0

    def send(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        columns = {name: batch.column(place) for place, name in reversed(list(enumerate(batch.schema.names)))}
        values = _bytes(columns["value"])
        topics = self._topics(columns)
        for topic in {topics} if isinstance(topics, str) else set(topics):
            if topic not in self._known:
                wait_for_topic(self._producer, topic)
                self._known.add(topic)
        keys = _present(columns, "key")
        headers = _present(columns, "headers")
        partitions = _present(columns, "partition")
        is_plain = keys is None and headers is None and partitions is None and columns["value"].null_count == 0
        if is_plain and self._may_run and isinstance(topics, str):
            self._unsettled.append([self._producer.send_many(topics, values)])
        else:
            self._unsettled.append(self._one_by_one(topics, values, keys, headers, partitions))
        self.count += batch.num_rows
        while self._unsettled and (len(self._unsettled) > _UNSETTLED or _is_done(self._unsettled[0])):
            self._settle(self._unsettled.popleft())

    def finish(self) -> None:
        """Wait until every row is stored; raises the first error."""
        self._producer.flush(self._patience)
        while self._unsettled:
            self._settle(self._unsettled.popleft())

    def _topics(self, columns: dict[str, Any]) -> str | list[str]:
        if self._topic is not None:
            return self._topic
        column = columns["topic"]
        if column.null_count:
            place = column.is_null().to_pylist().index(True)
            raise BadRow(
                f"row {self.count + place} of the task has no topic: fill the column, or set the option 'topic'"
            )
        topics: list[str] = column.to_pylist()
        return topics[0] if len(set(topics)) == 1 else topics

    def _one_by_one(
        self,
        topics: str | list[str],
        values: list[bytes | None],
        keys: Any,
        headers: Any,
        partitions: Any,
    ) -> list[Sent]:
        count = len(values)
        nothing: list[None] = [None] * count
        names = [topics] * count if isinstance(topics, str) else topics
        send = self._producer.send
        deliveries: list[Sent] = []
        for topic, value, key, pairs, partition in zip(
            names,
            values,
            nothing if keys is None else _bytes(keys),
            nothing if headers is None else headers.to_pylist(),
            nothing if partitions is None else partitions.to_pylist(),
            strict=True,
        ):
            deliveries.append(send(topic, value, key=key, partition=partition, headers=_headers(pairs)))
        return deliveries

    def _settle(self, sent: list[Sent]) -> None:
        for delivery in sent:
            error = delivery.exception(self._patience)
            if error is not None:
                raise error


def _is_done(sent: list[Sent]) -> bool:
    return all(delivery.done() for delivery in sent)


def _present(columns: dict[str, Any], name: str) -> Any:
    """The column, or None where it is missing or says nothing."""
    column = columns.get(name)
    return None if column is None or column.null_count == len(column) else column


def _bytes(column: Any) -> list[Any]:
    """Texts and bytes alike as bytes: Arrow keeps both as UTF-8 already."""
    import pyarrow as pa

    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[Any] = column.to_pylist()
    return values


def _headers(pairs: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | tuple[()]:
    if not pairs:
        return ()
    for pair in pairs:
        if pair is None or pair["key"] is None:
            raise BadRow("a header has no key")
    return [(pair["key"], pair["value"]) for pair in pairs]

"""A blunt client for broker tests: one connection, any message in any version, answers as values.

It goes through real sockets (``tests.support.capture``) and our own codec; what the bytes must be is tested elsewhere.
"""

from __future__ import annotations

from itertools import count
from types import TracebackType
from typing import Any, Self

from seamark.wire.protocol.apis import api
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from seamark.wire.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from seamark.wire.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from seamark.wire.records import Record, encode_batch, read_records
from seamark.wire.schema.schema import Message
from tests.support.capture import Wire

_numbers = count()


class Client:
    """One connection to one node."""

    def __init__(self, bootstrap: str, *, client_id: str = "tests", timeout: float = 10.0) -> None:
        self.wire = Wire(bootstrap.split(",")[0], timeout=timeout)
        self.client_id = client_id
        self._correlation_id = 0

    def frame(self, request: Message, version: int) -> bytes:
        self._correlation_id += 1
        return encode_request(request, version, self._correlation_id, self.client_id)

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request in that version, by default the newest, and return its response."""
        version = type(request).versions.last if version is None else version
        answer = self.wire.exchange(self.frame(request, version))
        return self.decode(request, version, answer)

    def send(self, request: Message, version: int) -> None:
        self.wire.send(self.frame(request, version))

    def receive(self, request: Message, version: int, timeout: float | None = None) -> Any:
        return self.decode(request, version, self.wire.receive(timeout))

    def decode(self, request: Message, version: int, answer: bytes) -> Any:
        return decode_response(api(request.api_key).response, answer[4:], version)[1]

    # -- shorthands for one topic

    def create_topic(self, name: str, partitions: int = 1, factor: int = -1, **configs: str) -> Any:
        """Keyword names are configuration keys with underscores for dots."""
        topic = CreateTopicsRequestTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            configs=[
                CreateTopicsRequestConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
            ],
        )
        return self.ask(CreateTopicsRequest(topics=[topic])).topics[0]

    def produce(self, topic: str, batch: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 12) -> Any:
        request = produce_request(topic, batch, partition=partition, acks=acks)
        return self.ask(request, version).responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int = 0, *, partition: int = 0, version: int = 12, **fields: Any) -> Any:
        """Fetch one partition by name, without a session; ``fields`` are those of the request."""
        request = fetch_request({(topic, partition): offset}, **fields)
        return self.ask(request, version).responses[0].partitions[0]

    def values(self, topic: str, offset: int = 0, *, partition: int = 0) -> list[bytes | None]:
        """All values from the offset on; a fetch may end before the log does."""
        values: list[bytes | None] = []
        while True:
            found = self.fetch(topic, offset, partition=partition)
            records = read_records(found.records)
            if not records:
                return values
            values += [record.value for record in records]
            offset = records[-1].offset + 1

    def list_offset(self, topic: str, timestamp_ms: int, *, partition: int = 0, version: int = 10) -> Any:
        wanted = ListOffsetsRequestPartition(partition_index=partition, timestamp=timestamp_ms)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name=topic, partitions=[wanted])])
        return self.ask(request, version).topics[0].partitions[0]

    def metadata(self, *topics: str, version: int = 13, auto_create: bool = False) -> Any:
        return self.ask(
            MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in topics] if topics else None,
                allow_auto_topic_creation=auto_create,
            ),
            version,
        )

    def topic_id(self, topic: str) -> bytes:
        found: bytes = self.metadata(topic).topics[0].topic_id
        return found

    def close(self) -> None:
        self.wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def fresh_name() -> str:
    """Return a topic name that no other test has."""
    return f"topic-{next(_numbers)}"


def batch_of(*values: bytes, key: bytes | None = b"k", timestamp_ms: int = 1_700_000_000_000, **facts: Any) -> bytes:
    """Return a batch as a producer sends it; ``facts`` are those of ``encode_batch``."""
    records = [Record(number, timestamp_ms + number, key=key, value=value) for number, value in enumerate(values)]
    return encode_batch(records, **facts)


def produce_request(topic: str, batch: bytes | None, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            ProduceRequestTopic(name=topic, partition_data=[ProduceRequestPartition(index=partition, records=batch)])
        ],
    )


def fetch_request(
    wanted: dict[tuple[str | bytes, int], int], *, max_bytes: int = 1 << 20, leader_epoch: int = -1, **fields: Any
) -> FetchRequest:
    """Ask for partitions from offsets; a topic is given by name, or by id for version 13 and later."""
    topics: dict[str | bytes, FetchRequestTopic] = {}
    for (topic, partition), offset in wanted.items():
        if topic not in topics:
            named = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
            topics[topic] = FetchRequestTopic(**named)
        topics[topic].partitions.append(
            FetchRequestPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
                current_leader_epoch=leader_epoch,
            )
        )
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **fields, "topics": [*topics.values()]}
    )

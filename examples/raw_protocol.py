"""Commit and fetch offsets with nothing but Kafka's wire protocol: find the coordinator, commit two, fetch one.

    python examples/raw_protocol.py localhost:9092 demoGroup demoTopic

The program keeps one connection, first to any broker and then to the coordinator, and reads what errors mean from two
tables. It stores offsets 100 and 200 of partitions 0 and 1 and reads partition 0 back. The consumer does all this for
you; this is what happens underneath.
"""

from __future__ import annotations

import socket
import sys
import time
from typing import TypeVar

from seamark.errors import SeamarkError
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.frames import FrameParser, decode_response, encode_request
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

READ_TIMEOUT_S = 5.0
BACKOFF_S = 0.2
ATTEMPTS = 100
# Versions that every broker from 2.4 to 4.x answers.
FIND_COORDINATOR, COMMIT, FETCH = 2, 7, 5

# What to do about an error code in a commit's answer, and in a fetch's.
REDISCOVER, RETRY, SHRINK, STOP = "rediscover", "retry", "shrink the metadata", "stop"
COMMIT_REMEDIES = {
    ErrorCode.OFFSET_METADATA_TOO_LARGE: SHRINK,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: SHRINK,
    ErrorCode.NOT_COORDINATOR: REDISCOVER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: REDISCOVER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: RETRY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: RETRY,
}
FETCH_REMEDIES = {
    ErrorCode.NOT_COORDINATOR: REDISCOVER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: REDISCOVER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: RETRY,
}


class Refused(SeamarkError):
    """Retrying would not help, or did not."""


class Channel:
    """One blocking connection to "host:port"."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._socket = socket.create_connection((host, int(port)), READ_TIMEOUT_S)
        self._frames = FrameParser()
        self._correlation_id = 0

    def ask(self, request: Message, response: type[M], version: int) -> M:
        self._correlation_id += 1
        self._socket.sendall(encode_request(request, version, self._correlation_id, "raw-protocol"))
        frames: list[bytes] = []
        while not frames:
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionError(f"{self.address} closed the connection")
            frames = self._frames.feed(received)
        correlation_id, answer = decode_response(response, frames[0], version)
        if correlation_id != self._correlation_id:
            raise ConnectionError(f"{self.address} answered request {correlation_id}, not {self._correlation_id}")
        return answer

    def close(self) -> None:
        self._socket.close()


class OffsetClient:
    """The two-step program: discover, then commit and fetch, with the error tables."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._channel: Channel | None = None

    def _coordinator(self) -> Channel:
        """The connection to the coordinator, found by asking any broker; errors are retried after a backoff."""
        for _ in range(ATTEMPTS):
            if self._channel is not None:
                return self._channel
            try:
                first = Channel(self._bootstrap)
                request = FindCoordinatorRequest(key=self._group)
                answer = first.ask(request, FindCoordinatorResponse, FIND_COORDINATOR)
                if answer.error_code == ErrorCode.NONE:
                    address = f"{answer.host}:{answer.port}"
                    if address == self._bootstrap:
                        self._channel = first
                    else:
                        # The coordinator is another broker: reconnect.
                        first.close()
                        self._channel = Channel(address)
                    continue
                first.close()
            except OSError as error:
                print(f"discovery failed, trying again: {error}", file=sys.stderr)
            time.sleep(BACKOFF_S)
        raise Refused(f"no coordinator of group {self._group!r} was found from {self._bootstrap}")

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def commit(self, topic: str, offsets: dict[int, int], metadata: str) -> None:
        """Store offsets of some partitions of a topic, retrying as the table says."""
        for _ in range(ATTEMPTS):
            request = OffsetCommitRequest(
                group_id=self._group,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=partition, committed_offset=offset, committed_metadata=metadata
                            )
                            for partition, offset in offsets.items()
                        ],
                    )
                ],
            )
            try:
                answer = self._coordinator().ask(request, OffsetCommitResponse, COMMIT)
            except OSError:
                # An I/O failure: disconnect, rediscover, retry.
                self._disconnect()
                continue
            codes = {error_code(each.error_code) for found in answer.topics for each in found.partitions}
            codes.discard(ErrorCode.NONE)
            if not codes:
                return
            remedies = {COMMIT_REMEDIES.get(code, STOP) for code in codes}
            if STOP in remedies:
                raise Refused(f"commit for group {self._group!r}: {', '.join(code.name for code in codes)}")
            if SHRINK in remedies:
                metadata = metadata[: len(metadata) // 2]
                continue
            if REDISCOVER in remedies:
                self._disconnect()
            time.sleep(BACKOFF_S)
        raise Refused(f"commit for group {self._group!r} did not succeed in {ATTEMPTS} attempts")

    def fetch(self, topic: str, partition: int) -> tuple[int, str]:
        """The committed offset of a partition with its metadata; -1 if there is none."""
        request = OffsetFetchRequest(
            group_id=self._group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
        )
        for _ in range(ATTEMPTS):
            try:
                answer = self._coordinator().ask(request, OffsetFetchResponse, FETCH)
            except OSError:
                # An I/O failure: disconnect, rediscover, retry after a backoff.
                self._disconnect()
                time.sleep(BACKOFF_S)
                continue
            (found,) = answer.topics[0].partitions if answer.topics else (None,)
            code = error_code(answer.error_code or (found.error_code if found else 0))
            if code is ErrorCode.NONE and found is not None:
                return found.committed_offset, found.metadata or ""
            remedy = FETCH_REMEDIES.get(code, STOP)
            if remedy == STOP:
                raise Refused(f"fetch for group {self._group!r}: {code.name}")
            if remedy == REDISCOVER:
                self._disconnect()
            time.sleep(BACKOFF_S)
        raise Refused(f"fetch for group {self._group!r} did not succeed in {ATTEMPTS} attempts")

    def close(self) -> None:
        self._disconnect()


def main(arguments: list[str]) -> int:
    if len(arguments) != 3 or ":" not in arguments[0]:
        print("usage: raw_protocol.py HOST:PORT GROUP TOPIC", file=sys.stderr)
        return 2
    bootstrap, group, topic = arguments
    client = OffsetClient(bootstrap, group)
    try:
        client.commit(topic, {0: 100, 1: 200}, "associated metadata")
        offset, metadata = client.fetch(topic, 0)
    except SeamarkError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        client.close()
    print(f"{topic}-0 offset={offset} metadata={metadata!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The oldest way to keep offsets: OffsetCommit and OffsetFetch in version 0 (ZooKeeper) or 1 (Kafka), byte by byte.

    python examples/raw_offsets.py localhost:9092 demoGroup demoTopic --version 0
    python examples/raw_offsets.py localhost:9092 demoGroup demoTopic --version 1 --offsets 100,200

The version picks the store, and the two know nothing of each other. The program commits one offset for each of the
first partitions and reads the first back. Version 0 is answered by any broker that has a ZooKeeper; version 1 by the
group's coordinator, and brings along the time of the commit. Brokers from 4.0 on have neither.
"""

from __future__ import annotations

import argparse
import sys
import time

from raw_protocol import (
    ATTEMPTS,
    BACKOFF_S,
    COMMIT_REMEDIES,
    FETCH_REMEDIES,
    REDISCOVER,
    SHRINK,
    STOP,
    Channel,
    Refused,
)

from seamark.errors import SeamarkError
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

IN_ZOOKEEPER, IN_KAFKA = 0, 1
# Partition 0, partition 1 and so on; the last one is for all that follow.
METADATA = ("associated metadata", "more metadata")
# What the errors were called when these versions were new.
OLD_NAMES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "ConsumerCoordinatorNotAvailable",
    ErrorCode.NOT_COORDINATOR: "NotCoordinatorForConsumer",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "OffsetsLoadInProgress",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
}


class OldOffsetClient:
    """Commits and fetches in one version, over one connection at a time."""

    def __init__(self, bootstrap: str, group: str, version: int) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._version = version
        self._channel: Channel | None = None

    def _connected(self) -> Channel:
        if self._channel is None:
            self._channel = self._any_broker() if self._version == IN_ZOOKEEPER else self._coordinator()
        return self._channel

    def _any_broker(self) -> Channel:
        channel = Channel(self._bootstrap)
        self._check_served(channel)
        return channel

    def _check_served(self, channel: Channel) -> None:
        served = {each.api_key: each for each in channel.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).api_keys}
        for api in (OffsetCommitRequest, OffsetFetchRequest):
            least = served[api.api_key].min_version
            if self._version < least:
                channel.close()
                raise Refused(f"{channel.address} serves {api.__name__} from version {least} on, not {self._version}")

    def _coordinator(self) -> Channel:
        for _ in range(ATTEMPTS):
            first = self._any_broker()
            answer = first.ask(FindCoordinatorRequest(key=self._group), FindCoordinatorResponse, 0)
            code = error_code(answer.error_code)
            address = f"{answer.host}:{answer.port}"
            if code is ErrorCode.NONE and address == first.address:
                return first
            first.close()
            if code is ErrorCode.NONE:
                return Channel(address)
            print(f"no coordinator yet: {_old_name(code)}", file=sys.stderr)
            time.sleep(BACKOFF_S)
        raise Refused(f"no coordinator of group {self._group!r} was found from {self._bootstrap}")

    def commit(self, topic: str, offsets: dict[int, int]) -> None:
        """Store offsets with metadata and, in version 1, the time of now; retried as the table says."""
        longest = max(map(len, METADATA))
        for _ in range(ATTEMPTS):
            now_ms = int(time.time() * 1000) if self._version == IN_KAFKA else -1
            partitions = [
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    commit_timestamp=now_ms,
                    committed_metadata=METADATA[min(partition, len(METADATA) - 1)][:longest],
                )
                for partition, offset in offsets.items()
            ]
            request = OffsetCommitRequest(
                group_id=self._group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]
            )
            try:
                answer = self._connected().ask(request, OffsetCommitResponse, self._version)
            except OSError as error:
                self._disconnect(str(error))
                time.sleep(BACKOFF_S)
                continue
            codes = {error_code(each.error_code) for found in answer.topics for each in found.partitions}
            codes.discard(ErrorCode.NONE)
            if not codes:
                return
            remedies = {COMMIT_REMEDIES.get(code, STOP) for code in codes}
            if STOP in remedies:
                raise Refused(f"commit for group {self._group!r}: {', '.join(map(_old_name, codes))}")
            if SHRINK in remedies:
                longest //= 2
                continue
            if REDISCOVER in remedies:
                self._disconnect(", ".join(map(_old_name, codes)))
            time.sleep(BACKOFF_S)
        raise Refused(f"commit for group {self._group!r} did not succeed in {ATTEMPTS} attempts")

    def fetch(self, topic: str, partition: int) -> tuple[int, str]:
        """The stored offset of a partition with its metadata; -1 if there is none."""
        request = OffsetFetchRequest(
            group_id=self._group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
        )
        for _ in range(ATTEMPTS):
            try:
                answer = self._connected().ask(request, OffsetFetchResponse, self._version)
            except OSError as error:
                self._disconnect(str(error))
                time.sleep(BACKOFF_S)
                continue
            found = answer.topics[0].partitions[0]
            code = error_code(found.error_code)
            # Version 0 says in this way that nothing is stored.
            if code is ErrorCode.NONE or (code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._version == 0):
                return found.committed_offset, found.metadata or ""
            remedy = FETCH_REMEDIES.get(code, STOP)
            if remedy == STOP:
                raise Refused(f"fetch for group {self._group!r}: {_old_name(code)}")
            if remedy == REDISCOVER:
                self._disconnect(_old_name(code))
            time.sleep(BACKOFF_S)
        raise Refused(f"fetch for group {self._group!r} did not succeed in {ATTEMPTS} attempts")

    def _disconnect(self, reason: str) -> None:
        print(f"connecting again: {reason}", file=sys.stderr)
        self.close()

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _old_name(code: ErrorCode) -> str:
    return OLD_NAMES.get(code, code.name)


def _offsets(text: str) -> dict[int, int]:
    try:
        found = {partition: int(part) for partition, part in enumerate(text.split(","))}
    except ValueError:
        found = {}
    if not found or min(found.values()) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of offsets such as 100,200")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--version", type=int, choices=(IN_ZOOKEEPER, IN_KAFKA), default=IN_KAFKA)
    parser.add_argument("--offsets", type=_offsets, default="100,200", help="of partitions 0, 1, and so on")
    parser.add_argument("--only-fetch", action="store_true", help="commit nothing")
    arguments = parser.parse_args()
    client = OldOffsetClient(arguments.bootstrap, arguments.group, arguments.version)
    try:
        if not arguments.only_fetch:
            client.commit(arguments.topic, arguments.offsets)
        offset, metadata = client.fetch(arguments.topic, 0)
    except (SeamarkError, OSError) as error:
        print(f"{arguments.bootstrap}: {error}" if isinstance(error, OSError) else error, file=sys.stderr)
        return 1
    finally:
        client.close()
    print(f"version {arguments.version}: {arguments.topic}-0 offset={offset} metadata={metadata!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

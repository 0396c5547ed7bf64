"""Byte for byte against a running Apache Kafka: what it sends we decode and encode to the same bytes, and what it
stores in its log we write the same way.
"""

import struct
import time

import pytest

from seamark.wire.offsets.offsets_topic import decode_entry, offset_commit_key, offset_commit_value
from seamark.wire.protocol.apis import all_apis
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import decode_response, encode_request, encode_response
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest
from seamark.wire.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from seamark.wire.records import decode_batch, encode_batch, scan_batches
from seamark.wire.schema.schema import ZERO_UUID, Message
from tests.support.capture import Wire
from tests.support.maven import NEWEST_KAFKA
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

# B3: these groups hash to these of the fifty offsets partitions.
GROUP, GROUP_PARTITION = "demoGroup", 38


def ask(bootstrap: str, request: Message, version: int) -> Message:
    """Send a request, decode the answer, and require that encoding it again gives the bytes that came."""
    response_class = all_apis()[request.api_key].response
    with Wire(bootstrap) as wire:
        answer = wire.exchange(encode_request(request, version, 4711, "conformance"))
    correlation_id, message = decode_response(response_class, answer[4:], version)
    assert correlation_id == 4711
    assert encode_response(message, version, correlation_id) == answer
    return message


def ask_until_available(bootstrap: str, request: Message, version: int, is_ready) -> Message:
    # A broker on a busy disk may lose its leaderships for a while.
    deadline = time.monotonic() + 120
    while True:
        message = ask(bootstrap, request, version)
        if is_ready(message) or time.monotonic() > deadline:
            assert is_ready(message), message
            return message
        time.sleep(0.2)


@pytest.fixture(scope="module")
def demo_topic(apache_kafka_any):
    topic = CreateTopicsRequestTopic(name="demoTopic", num_partitions=2, replication_factor=1)
    created = ask(apache_kafka_any.bootstrap, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert created.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    def is_known() -> bool:
        """The controller answers before the broker has heard of the topic."""
        answer = ask(apache_kafka_any.bootstrap, MetadataRequest(topics=None), 4)
        return "demoTopic" in {each.name for each in answer.topics}

    eventually(is_known, "the broker to know the topic")
    return "demoTopic"


@pytest.mark.parametrize("version", range(5))
def test_api_versions_answers_have_our_bytes_in_every_version(apache_kafka_any, version):  # covers: A30
    request = ApiVersionsRequest(client_software_name="seamark", client_software_version="0.1")
    message = ask(apache_kafka_any.bootstrap, request if version >= 3 else ApiVersionsRequest(), version)
    assert message.error_code == ErrorCode.NONE
    offered = {key.api_key: (key.min_version, key.max_version) for key in message.api_keys}
    for api in all_apis().values():
        if api.key in offered:
            low, high = offered[api.key]
            assert low <= api.versions.last, f"{api.name}: the broker starts above what we speak"
            assert high >= api.versions.first, f"{api.name}: the broker ends below what we speak"


def shared_versions(bootstrap: str, request: type[Message]) -> range:
    """The versions that the broker offers and we speak; at least the broker's newest stable ones must be among them."""
    offered = ask(bootstrap, ApiVersionsRequest(), 0)
    (key,) = [key for key in offered.api_keys if key.api_key == request.api_key]
    versions = range(max(key.min_version, request.versions.first), min(key.max_version, request.versions.last) + 1)
    assert len(versions) >= 5
    return versions


def test_metadata_answers_have_our_bytes_in_every_version(apache_kafka_any, demo_topic):
    for version in shared_versions(apache_kafka_any.bootstrap, MetadataRequest):
        message = ask(apache_kafka_any.bootstrap, MetadataRequest(topics=None if version else []), version)
        assert demo_topic in {topic.name for topic in message.topics}


def test_find_coordinator_answers_have_our_bytes_in_every_version(apache_kafka_any):  # covers: B1
    def is_ready(message: Message) -> bool:
        answers = getattr(message, "coordinators", []) or [message]
        assert {each.error_code for each in answers} <= {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        return all(each.error_code == ErrorCode.NONE for each in answers)

    for version in shared_versions(apache_kafka_any.bootstrap, FindCoordinatorRequest):
        many = FindCoordinatorRequest(coordinator_keys=[GROUP])
        request = many if version >= 4 else FindCoordinatorRequest(key=GROUP)
        message = ask_until_available(apache_kafka_any.bootstrap, request, version, is_ready)
        found = message.coordinators[0] if version >= 4 else message
        assert (found.host, found.port) == ("127.0.0.1", apache_kafka_any.port)


def id_of(topic: str, bootstrap: str) -> bytes:
    message = ask(bootstrap, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return message.topics[0].topic_id


def commit_of(timestamp_free_metadata: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name="demoTopic",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=100, committed_metadata=timestamp_free_metadata
                    ),
                    OffsetCommitRequestPartition(
                        partition_index=1, committed_offset=200, committed_metadata="more metadata"
                    ),
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_its_answer_and_its_stored_record_have_our_bytes(
    apache_kafka_any, demo_topic, version
):  # covers: A1, A8, A30, F4, F5, F6, B3
    metadata = f"associated metadata {version}"

    def is_ready(message: Message) -> bool:
        codes = {part.error_code for topic in message.topics for part in topic.partitions}
        assert codes <= {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        return codes == {ErrorCode.NONE}

    ask_until_available(apache_kafka_any.bootstrap, commit_of(metadata), version, is_ready)
    _, stored = stored_batches(apache_kafka_any)[-1]
    entries = [(record.key, record.value) for record in stored]
    assert [key for key, _ in entries] == [offset_commit_key(GROUP, "demoTopic", part) for part in (0, 1)]
    is_new = apache_kafka_any.version == NEWEST_KAFKA
    written_version = struct.unpack_from(">h", entries[0][1])[0]
    assert written_version == (4 if is_new else 3)
    # 4.3.1 stores the topic's id beside the offset, also for a commit that names the topic only; 4.1.0 did not.
    topic_id = id_of(demo_topic, apache_kafka_any.bootstrap) if is_new else ZERO_UUID
    for (_, value), offset, text in zip(entries, (100, 200), (metadata, "more metadata"), strict=True):
        timestamp = decode_entry(entries[0][0], value).value.commit_timestamp
        assert offset_commit_value(offset, text, timestamp, topic_id=topic_id, version=written_version) == value


def test_the_log_of_the_offsets_topic_is_written_as_we_would_write_it(apache_kafka_any, demo_topic):
    ask_until_available(
        apache_kafka_any.bootstrap,
        commit_of("once more"),
        8,
        lambda message: all(part.error_code == 0 for topic in message.topics for part in topic.partitions),
    )
    for raw, records in stored_batches(apache_kafka_any):
        header, _ = next(iter(scan_batches(raw)))
        again = encode_batch(
            records,
            codec=header.codec,
            timestamp_type=header.timestamp_type,
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
        assert again == raw


def test_a_committed_offset_is_answered_in_our_bytes_in_every_version(apache_kafka_any, demo_topic):  # covers: A32, A35
    ask_until_available(
        apache_kafka_any.bootstrap,
        commit_of("to be read"),
        8,
        lambda message: all(part.error_code == 0 for topic in message.topics for part in topic.partitions),
    )
    for version in range(1, 10):
        topic = OffsetFetchRequestTopic(name="demoTopic", partition_indexes=[0])
        if version >= 8:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])
            part = ask(apache_kafka_any.bootstrap, request, version).groups[0].topics[0].partitions[0]
        else:
            request = OffsetFetchRequest(group_id=GROUP, topics=[topic])
            part = ask(apache_kafka_any.bootstrap, request, version).topics[0].partitions[0]
        assert (part.committed_offset, part.metadata) == (100, "to be read")


def stored_batches(kafka):
    """The batches of the demo group's offsets partition, as bytes and as records."""
    found = []
    for path in kafka.segment_files("__consumer_offsets", GROUP_PARTITION):
        data = path.read_bytes()
        for header, start in scan_batches(data):
            raw = data[start : start + header.size_bytes]
            found.append((raw, decode_batch(raw)))
    return found

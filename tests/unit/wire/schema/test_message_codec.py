"""Which messages there are, and their round trips: defaults, versions, tagged fields known and unknown."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from seamark.errors import (
    BadLength,
    BadValue,
    OutOfRange,
    Truncated,
)
from seamark.wire.protocol import messages
from seamark.wire.protocol.apis import all_apis, api_named
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse
from seamark.wire.protocol.messages.fetch import (
    FetchResponse,
    FetchResponseCurrentLeader,
    FetchResponsePartition,
    FetchResponseTopic,
)
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from seamark.wire.protocol.messages.metadata import MetadataResponse
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from seamark.wire.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest
from seamark.wire.schema import codec
from seamark.wire.schema.schema import Array, Message, Struct
from tests.support.message_strategies import EVERY_LABEL, EVERY_MESSAGE, filled

ALL = pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE, ids=EVERY_LABEL)

# API name -> (key, first version, last version), as the project promises them
PROMISED = {
    "ApiVersions": (18, 0, 4),
    "ConsumerGroupDescribe": (69, 0, 1),
    "ControlledShutdown": (7, 0, 3),
    "CreateAcls": (30, 1, 3),
    "CreatePartitions": (37, 0, 3),
    "CreateTopics": (19, 2, 7),
    "DeleteAcls": (31, 1, 3),
    "DeleteGroups": (42, 0, 2),
    "DeleteRecords": (21, 0, 2),
    "DeleteTopics": (20, 1, 6),
    "DescribeAcls": (29, 1, 3),
    "DescribeCluster": (60, 0, 2),
    "DescribeConfigs": (32, 1, 4),
    "DescribeGroups": (15, 0, 6),
    "Fetch": (1, 4, 17),
    "FindCoordinator": (10, 0, 6),
    "Heartbeat": (12, 0, 4),
    "IncrementalAlterConfigs": (44, 0, 1),
    "InitProducerId": (22, 0, 5),
    "JoinGroup": (11, 0, 9),
    "LeaveGroup": (13, 0, 5),
    "ListGroups": (16, 0, 5),
    "ListOffsets": (2, 1, 10),
    "Metadata": (3, 0, 13),
    "OffsetCommit": (8, 0, 9),
    "OffsetDelete": (47, 0, 0),
    "OffsetFetch": (9, 0, 9),
    "OffsetForLeaderEpoch": (23, 2, 4),
    "Produce": (0, 0, 12),
    "SaslAuthenticate": (36, 0, 2),
    "SaslHandshake": (17, 0, 1),
    "SyncGroup": (14, 0, 5),
}
# First flexible version (A30 for the group APIs)
FLEXIBLE_FROM = {"OffsetCommit": 8, "OffsetFetch": 6, "FindCoordinator": 3, "JoinGroup": 6, "Heartbeat": 4}
FLEXIBLE_FROM |= {"LeaveGroup": 4, "SyncGroup": 4, "DescribeGroups": 5, "Fetch": 12}

# Fields that not all promised versions have and that Kafka does not allow to be dropped silently.
NOT_IGNORABLE = {
    "DeleteTopicsRequest": "topics",
    "DescribeClusterRequest": "endpoint_type include_fenced_brokers",
    "DescribeClusterResponse": "brokers.is_fenced endpoint_type",
    "DescribeConfigsRequest": "include_documentation",
    "DescribeGroupsRequest": "include_authorized_operations",
    "DescribeGroupsResponse": "groups.authorized_operations groups.error_message",
    "FetchRequest": "forgotten_topics_data replica_id replica_state topics.partitions.last_fetched_epoch",
    "FetchResponse": "node_endpoints responses.partitions.current_leader responses.partitions.diverging_epoch "
    "responses.partitions.preferred_read_replica responses.partitions.snapshot_id session_id",
    "FindCoordinatorRequest": "coordinator_keys key key_type",
    "FindCoordinatorResponse": "coordinators error_code host node_id port",
    "HeartbeatRequest": "group_instance_id",
    "InitProducerIdRequest": "producer_epoch producer_id",
    "JoinGroupRequest": "group_instance_id",
    "JoinGroupResponse": "skip_assignment",
    "LeaveGroupRequest": "member_id members",
    "LeaveGroupResponse": "members",
    "ListGroupsRequest": "states_filter types_filter",
    "ListOffsetsRequest": "isolation_level",
    "ListOffsetsResponse": "topics.partitions.leader_epoch",
    "MetadataRequest": "allow_auto_topic_creation include_cluster_authorized_operations "
    "include_topic_authorized_operations",
    "MetadataResponse": "cluster_authorized_operations topics.topic_authorized_operations",
    "OffsetCommitRequest": "group_instance_id topics.partitions.commit_timestamp",
    "OffsetFetchRequest": "group_id groups require_stable topics",
    "OffsetFetchResponse": "groups topics",
    "ProduceRequest": "transactional_id",
    "ProduceResponse": "node_endpoints responses.partition_responses.current_leader",
    "SyncGroupRequest": "group_instance_id",
}


# --- the set of messages ---------------------------------------------------------------------------------------------


def test_every_promised_api_is_there_in_its_versions() -> None:
    # A12, A13, A30
    found = {api.name: (api.key, api.versions.first, api.versions.last) for api in all_apis().values()}
    assert {name: found.get(name) for name in PROMISED} == PROMISED


@pytest.mark.parametrize("name", PROMISED)
def test_request_and_response_cover_the_same_versions_and_the_docstring_tells_each(name: str) -> None:
    key, first, last = PROMISED[name]
    api = all_apis()[key]
    assert api.request.__name__ == f"{name}Request"
    assert api.response.__name__ == f"{name}Response"
    for cls in (api.request, api.response):
        assert (cls.api_key, cls.versions.first, cls.versions.last) == (key, first, last)
        if name in FLEXIBLE_FROM:
            assert cls.flexible.first == FLEXIBLE_FROM[name]
    assert repr(api.request.flexible) == repr(api.response.flexible)
    lines = (importlib.import_module(api.request.__module__).__doc__ or "").splitlines()
    assert lines[0].startswith(f"{name} ({key}): ")
    assert [line.split()[0] for line in lines if line.startswith("v")] == [f"v{v}" for v in range(first, last + 1)]


def test_only_fields_that_kafka_calls_ignorable_may_be_dropped() -> None:
    found: dict[str, list[str]] = {}

    def walk(cls: type[Struct], versions: set[int], message: str, path: str) -> None:
        for f in cls.fields:
            present = {version for version in versions if version in f.versions}
            if present != versions and not f.ignorable:
                found.setdefault(message, []).append(f"{path}{f.name}")
            kind = f.kind.element if isinstance(f.kind, Array) else f.kind
            if isinstance(kind, type):
                walk(kind, present, message, f"{path}{f.name}.")

    for name in PROMISED:
        api = api_named(name)
        for cls in (api.request, api.response):
            walk(cls, set(cls.versions), cls.__name__, "")
    assert {message: sorted(names) for message, names in found.items()} == {
        message: names.split() for message, names in NOT_IGNORABLE.items()
    }


def test_struct_names_are_unique_over_all_messages() -> None:
    seen: dict[str, str] = {}
    for module_info in pkgutil.iter_modules(messages.__path__):
        module = importlib.import_module(f"{messages.__name__}.{module_info.name}")
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__:
                assert seen.setdefault(name, module.__name__) == module.__name__


# --- round trips -----------------------------------------------------------------------------------------------------


@ALL
def test_a_message_with_every_field_set_survives_and_is_found_inside_a_longer_buffer(
    cls: type[Message], version: int
) -> None:
    message = filled(cls, version)
    encoded = message.encode(version)
    assert cls.decode(encoded, version) == message
    found, position = codec.decode_from(cls, b"\xff\xff\xff" + encoded + b"\xff", 3, version)
    assert found == message
    assert position == 3 + len(encoded)


def test_record_fields_are_views_of_the_buffer_and_not_copies() -> None:
    request = ProduceRequest(
        topic_data=[ProduceRequestTopic(name="t", partition_data=[ProduceRequestPartition(records=b"batch")])]
    )
    encoded = request.encode(9)
    records = ProduceRequest.decode(encoded, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is encoded
    assert records == b"batch"


@pytest.mark.parametrize("value", [b"token", bytearray(b"token"), memoryview(b"a token b")[2:7]])
def test_bytes_may_be_given_as_any_buffer(value: bytes) -> None:
    assert SaslAuthenticateRequest(auth_bytes=value).encode(2).hex() == "06" + b"token".hex() + "00"


def test_fields_of_other_versions_get_their_defaults_when_read() -> None:
    # A5, A24
    again = JoinGroupRequest.decode(JoinGroupRequest(group_id="g", session_timeout_ms=30000).encode(0), 0)
    assert again.rebalance_timeout_ms == -1
    assert again.group_instance_id is None
    assert again.reason is None


def test_defaults_are_not_shared_between_instances() -> None:
    first, second = FetchResponsePartition(), FetchResponsePartition()
    assert first.current_leader is not second.current_leader
    assert first.aborted_transactions is not second.aborted_transactions
    decoded = FetchResponse.decode(FetchResponse(responses=[FetchResponseTopic(partitions=[first] * 2)]).encode(12), 12)
    one, two = decoded.responses[0].partitions
    assert one.current_leader == two.current_leader
    assert one.current_leader is not two.current_leader


# --- tagged fields ---------------------------------------------------------------------------------------------------


def test_tagged_fields_at_their_defaults_are_left_out() -> None:
    # error code, no apis, throttle time, no tagged fields
    assert ApiVersionsResponse().encode(3).hex() == "0000010000000000"
    assert ApiVersionsResponse(zk_migration_ready=True).encode(3).hex() == "0000010000000001030101"
    assert ApiVersionsResponse(finalized_features_epoch=0).encode(3).hex() == ("000001000000000101080000000000000000")


def test_tagged_struct_is_written_when_any_of_its_fields_is_not_the_default() -> None:
    def tags(leader: FetchResponseCurrentLeader) -> str:
        response = FetchResponse(responses=[FetchResponseTopic(partitions=[FetchResponsePartition()])])
        plain = response.encode(12)
        response.responses[0].partitions[0].current_leader = leader
        return response.encode(12)[len(plain) - 3 :].hex()

    assert tags(FetchResponseCurrentLeader()) == "000000"
    assert tags(FetchResponseCurrentLeader(leader_epoch=0)) == "010109ffffffff00000000000000"
    assert tags(FetchResponseCurrentLeader(unknown_tags=((70, b"x"),))) == ("01010cffffffffffffffff014601780000")


def test_unknown_tags_are_written_between_known_ones_in_order() -> None:
    response = ApiVersionsResponse(zk_migration_ready=True, finalized_features_epoch=1)
    # kept from a version that is newer than this build
    response.unknown_tags = ((4, b"n"),)
    encoded = response.encode(3)
    assert encoded.hex().endswith("030108000000000000000103010104016e")
    assert ApiVersionsResponse.decode(encoded, 3).unknown_tags == ((4, b"n"),)


@pytest.mark.parametrize("tags", [((0, b""),), ((9, b"a"), (9, b"b")), ((-1, b""),), ((1 << 32, b""),), ((9, "text"),)])
def test_unknown_tags_that_repeat_or_stand_in_for_a_known_tag_are_refused(tags: Any) -> None:
    with pytest.raises(OutOfRange, match=r"^ApiVersionsResponse\.unknown_tags="):
        ApiVersionsResponse(unknown_tags=tags).encode(3)


def test_unknown_tags_are_not_dropped_by_a_version_without_tags() -> None:
    with pytest.raises(OutOfRange, match=r"^HeartbeatRequest\.unknown_tags="):
        HeartbeatRequest(unknown_tags=((5, b""),)).encode(3)


@pytest.mark.parametrize("tags", ["02 4000 4000", "02 4100 4000"])
def test_tags_out_of_order_are_refused(tags: str) -> None:
    encoded = bytes.fromhex("026700" + tags)
    with pytest.raises(BadValue, match="follows tag"):
        FindCoordinatorRequest.decode(encoded, 3)


def test_tagged_field_must_fill_its_size() -> None:
    # zk_migration_ready takes one byte, two are announced
    with pytest.raises(BadLength, match="zk_migration_ready") as caught:
        ApiVersionsResponse.decode(bytes.fromhex("000001000000000103020100"), 3)
    assert caught.value.position == 11
    with pytest.raises(Truncated, match="zk_migration_ready"):
        ApiVersionsResponse.decode(bytes.fromhex("00000100000000010300"), 3)


# --- the objects -----------------------------------------------------------------------------------------------------


def test_messages_compare_by_value_and_show_their_fields() -> None:
    one = SyncGroupRequest(group_id="g", generation_id=3)
    assert one == SyncGroupRequest(group_id="g", generation_id=3)
    assert one != SyncGroupRequest(group_id="g", generation_id=4)
    assert one != SyncGroupRequest(group_id="g", generation_id=3, unknown_tags=((1, b""),))
    assert one != HeartbeatRequest(group_id="g", generation_id=3)
    assert repr(JoinGroupRequestProtocol(name="range", metadata=b"\1")) == (
        "JoinGroupRequestProtocol(name='range', metadata=b'\\x01')"
    )


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="groupid"):
        JoinGroupResponse(groupid="g")
    with pytest.raises(AttributeError):
        MetadataResponse().broker = []


def test_null_stays_null_inside_arrays_of_the_newest_version() -> None:
    # A32: a null topic list asks for all
    newest = OffsetFetchRequest.versions.last
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None, member_id=None)])
    assert OffsetFetchRequest.decode(request.encode(newest), newest).groups[0].topics is None

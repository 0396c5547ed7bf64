"""ConsumerGroupDescribe (69): state and members of groups of the newer protocol.

v0  epochs, members, their assignments and the ones they are moving to; flexible from the start
v1  adds the member's type: -1 unknown, 0 classic, 1 consumer
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int8, int16, int32, string, uuid


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


class ConsumerGroupDescribeResponseTopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


class ConsumerGroupDescribeResponseAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = field(
        array(ConsumerGroupDescribeResponseTopicPartitions)
    )


class ConsumerGroupDescribeResponseMember(Struct):
    member_id: str = field(string)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    assignment: ConsumerGroupDescribeResponseAssignment = field(ConsumerGroupDescribeResponseAssignment)
    target_assignment: ConsumerGroupDescribeResponseAssignment = field(ConsumerGroupDescribeResponseAssignment)
    member_type: int = field(int8, versions="1+", default=-1, ignorable=True)


class ConsumerGroupDescribeResponseGroup(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[ConsumerGroupDescribeResponseMember] = field(array(ConsumerGroupDescribeResponseMember))
    authorized_operations: int = field(int32, default=-(1 << 31))


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(int32)
    groups: list[ConsumerGroupDescribeResponseGroup] = field(array(ConsumerGroupDescribeResponseGroup))

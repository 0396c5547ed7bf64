"""Arguments of the wrong kind are refused in a sentence before anything is sent: no broker is there to ask."""

import asyncio

import pytest

from seamark.client import Admin, AsyncAdmin, Consumer, Offset, TopicPartition
from seamark.client.timing import Deadline
from seamark.errors import UsageError

NOBODY = "127.0.0.1:1"
T0 = TopicPartition("t", 0)
WRONG = [
    ("describe_topics", ("ab",), "names is a list of topic names, not 'ab'; write ['ab']"),
    ("delete_topics", ("a2",), "names is a list of topic names, not 'a2'; write ['a2']"),
    ("delete_topics", (b"a2",), "names is a list of topic names, not b'a2'"),
    ("delete_topics", ([5],), "names is a list of topic names; 5 is none"),
    ("delete_topics", (5,), "names is a list of topic names, not 5"),
    ("create_topics", ("abc",), "new_topics is a list of NewTopic, not 'abc'"),
    ("create_topics", ([5],), "new_topics is a list of NewTopic; 5 is none"),
    ("create_partitions", (["t"],), "counts is a mapping by topic name, not ['t']"),
    ("create_partitions", ({"t": "3"},), "counts has whole numbers from"),
    ("delete_records", ([T0],), "before is a mapping by TopicPartition, not"),
    ("delete_records", ({T0: 2**63},), "before has whole numbers from -1 to 9223372036854775807"),
    ("describe_configs", ("topic",), "resources is a list of Resource, not 'topic'"),
    ("describe_configs", (["topic"],), "resources is a list of Resource; 'topic' is none"),
    ("alter_configs", ("topic",), "changes is a mapping by Resource, not 'topic'"),
    ("alter_configs", ({"topic": {}},), "changes is a list of Resource; 'topic' is none"),
    ("describe_groups", ("xy",), "group_ids is a list of group ids, not 'xy'; write ['xy']"),
    ("describe_groups", ([None],), "group_ids is a list of group ids; None is none"),
    ("delete_groups", ("xy",), "group_ids is a list of group ids, not 'xy'; write ['xy']"),
    ("list_group_offsets", ("xy",), "group_ids is a list of group ids, not 'xy'; write ['xy']"),
    ("list_group_offsets", ({"g": "t0"},), "group_ids['g'] is a list of TopicPartition, not 't0'"),
    ("alter_group_offsets", ("", {T0: 1}), "group_id is the name of a group, not ''"),
    ("alter_group_offsets", (None, {T0: 1}), "group_id is the name of a group, not None"),
    ("alter_group_offsets", ("g", [T0]), "offsets to commit are a mapping from TopicPartition to Offset"),
    ("alter_group_offsets", ("g", {T0: 2**63}), "an offset to commit must be an integer"),
    ("delete_group_offsets", ("g", "t0"), "partitions is a list of TopicPartition, not 't0'"),
    ("delete_group_offsets", ("g", T0), "partitions is a list of TopicPartition, not one; write [TopicPartition("),
    ("delete_group_offsets", ("g", ["t0"]), "partitions has TopicPartition(topic, partition), not 't0'"),
    ("list_offsets", ([T0],), "specs is a mapping by TopicPartition, not"),
    ("list_offsets", ({T0: 2**63},), "a time is a whole number of milliseconds"),
    ("record_times", ([5],), "places is a list of LogPlace; 5 is none"),
    ("create_acls", ("x",), "rules is a list of Acl, not 'x'"),
    ("delete_acls", ([5],), "filters is a list of AclFilter; 5 is none"),
]


@pytest.mark.parametrize(("method", "arguments", "sentence"), WRONG)
def test_a_wrong_kind_of_argument_is_refused_by_both_admin_clients(method, arguments, sentence):
    with Admin(bootstrap_servers=NOBODY) as admin, pytest.raises(UsageError) as refused:
        getattr(admin, method)(*arguments)
    assert sentence in str(refused.value)

    async def awaited():
        async with AsyncAdmin(bootstrap_servers=NOBODY) as admin:
            await getattr(admin, method)(*arguments)

    with pytest.raises(UsageError) as refused:
        asyncio.run(awaited())
    assert sentence in str(refused.value)


@pytest.mark.parametrize("keyword", ["states", "types"])
def test_a_filter_of_groups_is_a_list_too(keyword):
    with Admin(bootstrap_servers=NOBODY) as admin, pytest.raises(UsageError, match="is a list of names, not 'Empty'"):
        admin.list_groups(**{keyword: "Empty"})


@pytest.mark.parametrize("timeout", ["x", None, -1, float("nan")])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout):
    with pytest.raises(UsageError, match="a timeout is a number of seconds"):
        Deadline(timeout)


def test_an_offset_beyond_what_a_log_can_have_is_not_sought():
    with Consumer(bootstrap_servers=NOBODY) as consumer:
        consumer.assign([T0])
        with pytest.raises(UsageError, match="an offset must be an integer from 0 to 9223372036854775807"):
            consumer.seek(T0, 2**63)
        with pytest.raises(UsageError, match="an offset to commit must be an integer"):
            consumer.seek(T0, Offset(2**63))

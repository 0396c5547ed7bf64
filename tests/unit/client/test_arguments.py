"""Arguments of the wrong kind are refused in a sentence before anything is sent: no broker is there to ask."""

import asyncio

import pytest

from seamark.client import Admin, AsyncAdmin, Consumer, Offset, TopicPartition
from seamark.client.timing import Deadline
from seamark.errors import UsageError

NOBODY = "127.0.0.1:1"
T0 = TopicPartition("t", 0)
WRONG = [
    ("describe_topics", ("ab",), "names must be a list of topic names, got 'ab'; write ['ab']"),
    ("delete_topics", ("a2",), "names must be a list of topic names, got 'a2'; write ['a2']"),
    ("delete_topics", (b"a2",), "names must be a list of topic names, got b'a2'"),
    ("delete_topics", ([5],), "names must be a list of topic names, but contains 5"),
    ("delete_topics", (5,), "names must be a list of topic names, got 5"),
    ("create_topics", ("abc",), "new_topics must be a list of NewTopic, got 'abc'"),
    ("create_topics", ([5],), "new_topics must be a list of NewTopic, but contains 5"),
    ("create_partitions", (["t"],), "counts must be a mapping keyed by topic name, got ['t']"),
    ("create_partitions", ({"t": "3"},), "values of counts must be integers from"),
    ("delete_records", ([T0],), "before must be a mapping keyed by TopicPartition, got"),
    ("delete_records", ({T0: 2**63},), "values of before must be integers from -1 to 9223372036854775807"),
    ("describe_configs", ("topic",), "resources must be a list of Resource, got 'topic'"),
    ("describe_configs", (["topic"],), "resources must be a list of Resource, but contains 'topic'"),
    ("alter_configs", ("topic",), "changes must be a mapping keyed by Resource, got 'topic'"),
    ("alter_configs", ({"topic": {}},), "changes must be a list of Resource, but contains 'topic'"),
    ("describe_groups", ("xy",), "group_ids must be a list of group ids, got 'xy'; write ['xy']"),
    ("describe_groups", ([None],), "group_ids must be a list of group ids, but contains None"),
    ("delete_groups", ("xy",), "group_ids must be a list of group ids, got 'xy'; write ['xy']"),
    ("list_group_offsets", ("xy",), "group_ids must be a list of group ids, got 'xy'; write ['xy']"),
    ("list_group_offsets", ({"g": "t0"},), "group_ids['g'] must be a list of TopicPartition, got 't0'"),
    ("alter_group_offsets", ("", {T0: 1}), "group_id must be the name of a group, got ''"),
    ("alter_group_offsets", (None, {T0: 1}), "group_id must be the name of a group, got None"),
    ("alter_group_offsets", ("g", [T0]), "offsets to commit must be a mapping from TopicPartition to Offset"),
    ("alter_group_offsets", ("g", {T0: 2**63}), "an offset to commit must be an integer"),
    ("delete_group_offsets", ("g", "t0"), "partitions must be a list of TopicPartition, got 't0'"),
    (
        "delete_group_offsets",
        ("g", T0),
        "partitions must be a list of TopicPartition, not a single one; write [TopicPartition(",
    ),
    ("delete_group_offsets", ("g", ["t0"]), "partitions must contain TopicPartition(topic, partition), got 't0'"),
    ("list_offsets", ([T0],), "specs must be a mapping keyed by TopicPartition, got"),
    ("list_offsets", ({T0: 2**63},), "a timestamp must be an integer number of milliseconds"),
    ("record_times", ([5],), "places must be a list of LogPlace, but contains 5"),
    ("create_acls", ("x",), "rules must be a list of Acl, got 'x'"),
    ("delete_acls", ([5],), "filters must be a list of AclFilter, but contains 5"),
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
    with (
        Admin(bootstrap_servers=NOBODY) as admin,
        pytest.raises(UsageError, match="must be a list of names, got 'Empty'"),
    ):
        admin.list_groups(**{keyword: "Empty"})


@pytest.mark.parametrize("timeout", ["x", None, -1, float("nan")])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout):
    with pytest.raises(UsageError, match="a timeout must be a number of seconds"):
        Deadline(timeout)


def test_an_offset_beyond_what_a_log_can_have_is_not_sought():
    with Consumer(bootstrap_servers=NOBODY) as consumer:
        consumer.assign([T0])
        with pytest.raises(UsageError, match="an offset must be an integer from 0 to 9223372036854775807"):
            consumer.seek(T0, 2**63)
        with pytest.raises(UsageError, match="an offset to commit must be an integer"):
            consumer.seek(T0, Offset(2**63))

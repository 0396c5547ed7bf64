"""Records of __consumer_offsets that cannot be read: a load skips them, says so once, and shows nothing of them."""

import logging

from seamark import Broker
from seamark.client import Admin, TopicPartition
from seamark.wire.offsets.offsets_topic import offset_commit_key, offset_commit_value
from seamark.wire.records import Record, encode_batch
from tests.support.broker_driver import Client

VALUE = offset_commit_value(7, "", 1_700_000_000_000)
HOSTILE = [
    (offset_commit_key("g", "t", -5), VALUE),
    (offset_commit_key("g", "t", 2**31 - 1), VALUE),
    (offset_commit_key("g", "t", 1), b"\x00\x09" + VALUE[2:]),
    (b"\x00\x63of a newer release", b"?"),
    (b"\x7f\xff", b"?"),
    (b"\x00", b"?"),
    (offset_commit_key("g\x9b\u202e", "t", 2)[:-2], VALUE),
    (b"\x00\x03\x00\x01g", b"\x00\x00"),
]


def put(client, *pairs):
    records = [Record(at, 1_700_000_000_000, key=key, value=value) for at, (key, value) in enumerate(pairs)]
    assert client.produce("__consumer_offsets", encode_batch(records)).error_code == 0


def test_what_cannot_be_read_is_skipped_and_told_in_one_line_per_load(tmp_path, caplog):
    options = {"data": tmp_path, "settings": {"offsets.topic.num.partitions": 1}}
    with Broker(**options) as broker, Client(broker.bootstrap, client_id="__admin_client") as client:
        broker.create_topic("t", 2)
        broker._call(broker._server.cluster.create_offsets_topic)
        put(client, (offset_commit_key("g", "t", 0), offset_commit_value(42, "", 1_700_000_000_000)))
        put(client, *HOSTILE)
        put(client, (b"\x00\x62deleted later", b"?"), (b"\x00\x62deleted later", None))
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING, "seamark.broker"),
        Broker(**options) as broker,
        Admin({"bootstrap.servers": broker.bootstrap}) as admin,
    ):
        found = admin.list_group_offsets(["g"])["g"]
    assert {partition: offset.offset for partition, offset in found.items()} == {TopicPartition("t", 0): 42}
    [line] = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert line.startswith("__consumer_offsets-0: skipped 8 records that cannot be loaded (")
    assert line.endswith("; the first is at offset 1")
    assert "others" in line
    assert line.isprintable()

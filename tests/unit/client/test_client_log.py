"""What a client says once is said once, and made-up names cannot fill its memory or the log."""

import logging
from types import SimpleNamespace

from seamark.client import admin_offsets
from seamark.client.client_log import ClientLog
from seamark.client.config import AdminConfig
from seamark.client.deadline import Deadline
from seamark.wire.messages.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponseTopic


def test_a_line_about_a_subject_is_said_once_and_not_about_every_name_that_is_made_up(caplog):
    log = ClientLog(AdminConfig.from_options({"bootstrap.servers": "127.0.0.1:1"}))
    for _ in range(3):
        for number in range(5000):
            log.say_once(logging.WARNING, "impossible_partition", f"group {number}", f"group {number} is odd")
    assert len(caplog.records) == 1000


def test_a_partition_that_no_topic_can_have_is_left_out_of_a_groups_offsets_and_told_once(caplog):
    log = ClientLog(AdminConfig.from_options({"bootstrap.servers": "127.0.0.1:1"}))
    fetching = admin_offsets._Fetch(SimpleNamespace(log=log), {}, False, Deadline(1))
    answered = [
        OffsetFetchResponsePartition(partition_index=index, committed_offset=7)
        for index in (-5, 0, 2**31 - 1, 2**31 - 2)
    ]
    for _ in range(3):
        found = fetching._committed("g\x9b", 0, [OffsetFetchResponseTopic(name="t", partitions=answered)])
        assert {partition.partition for partition in found} == {0, 2**31 - 2}
    assert [record.getMessage() for record in caplog.records] == [
        r"group 'g\x9b' has an offset of partition -5 of topic 't', which no topic can have: it is left out"
    ]

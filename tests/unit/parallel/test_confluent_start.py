"""Where a partition is read from after a commit whose records may be gone, if the client does not find out itself."""

from types import SimpleNamespace

import pytest

from seamark.client.records import Record
from seamark.parallel.adapters.confluent import ConfluentPort
from seamark.parallel.adapters.confluent_start import StartChecks
from seamark.parallel.core.ports import Committed, Polled
from seamark.topic_partition import TopicPartition

P0 = TopicPartition("orders", 0)


class Log:
    """The leader epoch of each offset, and a reader that polls three records at a time."""

    def __init__(self, epochs, committed, log_start=0):
        self.epochs, self.log_start = epochs, log_start
        self.position = committed.offset
        self.sought = []
        self.checks = StartChecks(self.seek, lambda _: self.log_start)
        self.checks.assigned(P0, committed)

    def seek(self, partition, offset):
        self.sought.append(offset)
        self.position = offset

    def read_to_the_end(self):
        seen = []
        for _ in range(1_000):
            offsets = [each for each in sorted(self.epochs) if each >= self.position][:3]
            if not offsets:
                break
            self.position = offsets[-1] + 1
            records = [Record("orders", 0, each, leader_epoch=self.epochs[each]) for each in offsets]
            seen += [record.offset for record in self.checks.sift(P0, records)]
        assert not self.checks.is_looking_back(P0)
        return seen


def log_of(*stretches):
    """Epochs by offset from (epoch, first offset, offset behind the last)."""
    return {offset: epoch for epoch, start, stop in stretches for offset in range(start, stop)}


def test_a_log_without_an_election_is_not_looked_at_twice():
    log = Log(log_of((0, 0, 12)), Committed(8, "", 0))
    assert log.read_to_the_end() == [8, 9, 10, 11]
    assert log.sought == []


def test_an_election_that_lost_nothing_costs_one_look_back():
    log = Log(log_of((0, 0, 8), (1, 8, 12)), Committed(8, "", 0))
    assert log.read_to_the_end() == [8, 9, 10, 11]
    assert log.sought == [7]


@pytest.mark.parametrize("end", [7, 5, 4, 1, 0])
def test_a_truncated_log_is_read_from_the_first_record_that_was_written_since(end):
    log = Log(log_of((0, 0, end), (1, end, 12)), Committed(8, "", 0))
    assert log.read_to_the_end() == list(range(end, 12))


def test_a_truncation_far_back_is_found_in_growing_steps():
    log = Log(log_of((0, 0, 100), (1, 100, 1010)), Committed(1000, "", 0))
    assert log.read_to_the_end() == list(range(100, 1010))
    assert log.sought == [999, 984, 744, 0]


def test_where_compaction_left_nothing_before_the_commit_the_look_goes_further_back():
    log = Log({0: 0, 1: 0, 9: 1, 10: 1}, Committed(8, "", 0))
    assert log.read_to_the_end() == [9, 10]
    log = Log({0: 0, 3: 1, 9: 1}, Committed(8, "", 0))
    assert log.read_to_the_end() == [3, 9]


def test_nothing_is_sought_below_the_start_of_the_log():
    log = Log(log_of((1, 6, 12)), Committed(8, "", 0), log_start=6)
    assert log.read_to_the_end() == list(range(6, 12))
    assert min(log.sought) == 6
    log = Log(log_of((1, 8, 12)), Committed(8, "", 0), log_start=8)
    assert log.read_to_the_end() == [8, 9, 10, 11]
    assert log.sought == []


@pytest.mark.parametrize("committed", [Committed(-1), Committed(0, "", 0), Committed(8, "", -1)])
def test_a_commit_that_says_nothing_about_epochs_is_believed(committed):
    log = Log(log_of((0, 0, 5), (1, 5, 12)), committed)
    assert log.read_to_the_end() == list(range(max(0, committed.offset), 12))
    assert log.sought == []


def test_a_partition_that_went_away_is_not_checked_any_more():
    log = Log(log_of((0, 0, 5), (1, 5, 12)), Committed(8, "", 0))
    log.checks.gone([P0])
    assert log.read_to_the_end() == [8, 9, 10, 11]


def message(offset, epoch=0, error=None):
    said = {
        "topic": "orders", "partition": 0, "offset": offset, "error": error, "timestamp": (1, 0), "key": None,
        "value": b"v", "headers": None, "leader_epoch": epoch,
    }  # fmt: skip
    return SimpleNamespace(**{name: lambda value=value: value for name, value in said.items()})


def test_the_end_of_a_partition_is_told_even_if_all_records_before_it_were_seen_earlier():
    confluent_kafka = pytest.importorskip("confluent_kafka")
    port = ConfluentPort({"bootstrap.servers": "localhost:1", "group.id": "g"}, 1 << 20)
    sought = []
    port._starts = StartChecks(lambda _, offset: sought.append(offset), lambda _: 0)
    port._starts.assigned(P0, Committed(8, "", 0))
    end = SimpleNamespace(code=lambda: confluent_kafka.KafkaError._PARTITION_EOF)
    try:
        assert port._by_partition([message(9, epoch=1), message(10, error=end)]) == [], "an end before the look back"
        assert sought == [7]
        assert port._by_partition([message(7), message(12, error=end)]) == [Polled(P0, (), 12)]
    finally:
        port.close(0.0)

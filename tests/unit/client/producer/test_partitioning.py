"""Which records are free to go anywhere, and how long they stay where the last one went."""

from __future__ import annotations

import pytest

from seamark.client.config.config import ProducerConfig
from seamark.client.producer.partitioning import PartitionChooser
from seamark.partitioners import Choices, Partitioner

CHOICES = Choices(3, None)


class Last(Partitioner):
    def partition(self, topic, key, value, choices):
        return choices.count - 1


def chooser(**options) -> PartitionChooser:
    return PartitionChooser(ProducerConfig.from_options({"bootstrap.servers": "localhost:9092"}, options))


@pytest.mark.parametrize(
    ("options", "key", "explicit", "is_free"),
    [
        ({}, None, None, True),
        ({}, b"k", None, False),
        ({}, None, 1, False),
        ({"partitioner_ignore_keys": True}, b"k", None, True),
        ({"partitioner_class": Last}, b"k", None, True),
        ({"partitioner_class": Last}, b"k", 1, False),
    ],
)
def test_a_record_is_free_if_neither_its_partition_nor_its_key_says_where(options, key, explicit, is_free):
    assert chooser(**options).is_free(key, explicit) is is_free


# covers: J7
def test_a_partition_is_kept_for_two_batches_at_most():
    made = chooser(batch_size=1000)
    assert made.sticky_bytes_left("t", 0) == 0, "nothing was chosen yet"
    present = made.choose("t", None, b"", None, CHOICES)
    others = [index for index in range(3) if index != present]
    assert made.sticky_bytes_left("t", present) == 2000
    assert [made.sticky_bytes_left("t", index) for index in others] == [0, 0]
    asked: list[str] = []

    def lengths(topic, partitions):
        asked.append(topic)
        # Everybody waits for the present one: it is the last to be chosen again.
        return {index: 10**9 if index == present else 0 for index in partitions}

    made.appended("t", present, 1999, CHOICES, lengths, is_batch_full=False)
    assert made.sticky_bytes_left("t", present) == 1
    assert asked == []
    made.appended("t", present, 1, CHOICES, lengths, is_batch_full=False)
    assert asked == ["t"], "the queues are looked at when it moves on"
    assert made.choose("t", None, b"", None, CHOICES) in others


def test_a_partitioner_of_ones_own_is_asked_for_every_record():
    made = chooser(partitioner_class=Last)
    assert made.choose("t", None, b"", None, CHOICES) == 2
    assert made.sticky_bytes_left("t", 2) == 0

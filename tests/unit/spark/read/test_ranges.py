"""Ranges cut into tasks: nothing is lost or read twice, and as many as asked for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.spark.read.ranges import OffsetRange, split
from seamark.topic_partition import TopicPartition

ranges = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 300)).map(
        lambda pair: OffsetRange(TopicPartition("t", 0), "", pair[0], pair[0] + pair[1])
    ),
    max_size=6,
).map(lambda found: [each._replace(partition=TopicPartition("t", index)) for index, each in enumerate(found)])


@settings(max_examples=200, deadline=None)
@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 60))
def test_parts_are_the_ranges_and_as_many_as_asked_for(whole, min_parts, max_records):
    parts = split(whole, min_parts, max_records)

    assert all(part.size > 0 for part in parts)
    for each in whole:
        mine = [part for part in parts if part.partition == each.partition]
        assert [number for part in mine for number in range(part.begin, part.end)] == list(range(each.begin, each.end))
    total = sum(each.size for each in whole)
    assert len(parts) >= min(min_parts or 0, total)
    if max_records is not None:
        assert all(part.size <= max_records for part in parts)
    elif min_parts is not None:
        assert len(parts) <= max(min_parts, len([each for each in whole if each.size]))

"""Offset documents, ranges and limits: pure rules, tried with many values."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.spark import errors as source_errors
from seamark.spark.read.lag import at_most, waiting
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets, read_document, write_document
from seamark.spark.read.ranges import OffsetRange, split
from seamark.topic_partition import TopicPartition

offset = st.integers(0, 2**63 - 1)
topic_offsets = st.dictionaries(st.integers(0, 200), st.tuples(offset, offset), max_size=6).map(
    lambda found: TopicOffsets(
        "ab" * 16,
        {index: max(pair) for index, pair in found.items()},
        {index: min(pair) for index, pair in found.items()},
    )
)
documents = st.builds(
    SourceOffsets,
    st.dictionaries(st.text(min_size=1, max_size=5), topic_offsets, max_size=3),
    st.text(max_size=5),
    st.integers(-1, 2**40),
    st.none() | st.text(max_size=5),
    st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(documents, st.randoms())
def test_a_document_is_the_same_text_whatever_order_it_was_made_in(offsets, chance):
    written = json.dumps(write_document(offsets))
    names = list(offsets.topics)
    chance.shuffle(names)
    shuffled = SourceOffsets(
        {name: offsets.topics[name] for name in names}, offsets.query, offsets.batch, offsets.group, offsets.is_initial
    )

    assert json.dumps(write_document(shuffled)) == written
    assert read_document(json.loads(written)) == offsets
    assert json.dumps(write_document(read_document(json.loads(written)))) == written


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["seamark", "topics", "next", "first", "id", "0", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(json_values)
def test_any_other_json_is_refused_with_a_sentence(value):
    try:
        read = read_document(value)
    except source_errors.BadCheckpoint as error:
        sentence = str(error)
    else:
        assert read_document(json.loads(json.dumps(write_document(read)))) == read
        return
    assert sentence
    assert "\n" not in sentence


def test_a_newer_format_is_refused_by_its_number():
    with pytest.raises(source_errors.BadCheckpoint, match="offsets of format 2, this version reads format 1"):
        read_document({"seamark": 2, "topics": {}})


def test_offsets_of_another_kind_of_source_are_refused():
    with pytest.raises(source_errors.BadCheckpoint, match="it belongs to a query over another source"):
        read_document({"logOffset": 3})


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


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 99), st.integers(0, 500)), max_size=6),
    st.integers(1, 900),
)
def test_a_limit_is_shared_and_starves_nobody(found, limit):
    begin = {TopicPartition("t", index): pair[0] for index, pair in found.items()}
    heads = {TopicPartition("t", index): sum(pair) for index, pair in found.items()}

    ends = at_most(limit, begin, heads)

    sizes = waiting(begin, heads)
    assert set(ends) == set(sizes)
    assert all(begin[each] < end <= heads[each] for each, end in ends.items())
    taken = sum(end - begin[each] for each, end in ends.items())
    assert taken <= max(limit, len(sizes)) or taken <= limit + len(sizes)
    assert at_most(None, begin, heads) == {each: heads[each] for each in sizes}


@pytest.mark.parametrize(
    "error",
    [
        source_errors.TopicRecreated("t", "a", "b"),
        source_errors.RecordsLost("offsets are gone"),
        source_errors.OffsetNotInLog("startingOffsets", TopicPartition("t", 0), 7, 0, 5),
        source_errors.GroupIsActive("g", "Stable", 2),
        source_errors.BadCheckpoint("no"),
    ],
)
def test_errors_travel_between_processes(error):
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert str(again) == str(error)

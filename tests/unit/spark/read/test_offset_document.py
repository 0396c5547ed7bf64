"""Offset documents: equal progress is equal text, and what is not one of ours is refused with a sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.spark import errors as source_errors
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets, read_document, write_document

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

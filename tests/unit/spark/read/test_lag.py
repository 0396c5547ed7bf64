"""How much of what waits goes into the next batch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.spark.read.lag import at_most, waiting
from seamark.topic_partition import TopicPartition


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

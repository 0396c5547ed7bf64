"""Where the replicas of new partitions go."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.broker.cluster.leadership import spread


@settings(max_examples=100, deadline=None)
@given(st.text("abc", min_size=1), st.integers(1, 30), st.integers(1, 6), st.data())
def test_replicas_are_distinct_and_leaders_evenly_spread(name, count, nodes, data):
    factor = data.draw(st.integers(1, nodes))
    replicas = spread(name, 0, count, range(nodes), factor)
    assert all(len(set(each)) == factor for each in replicas)
    led = [sum(each[0] == node for each in replicas) for node in range(nodes)]
    assert max(led) - min(led) <= 1
    assert spread(name, 0, count + 3, range(nodes), factor) == replicas + spread(name, count, 3, range(nodes), factor)

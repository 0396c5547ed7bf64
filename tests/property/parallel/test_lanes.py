"""Lanes under random work: order per key, nothing lost, concurrency kept, partitions served in turn."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.parallel.core.lanes import Lanes
from seamark.parallel.core.work import InFlightRecord
from seamark.topic_partition import TopicPartition

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]


@settings(max_examples=120, deadline=None)
@given(
    random=st.randoms(use_true_random=False),
    count=st.integers(1, 150),
    keys=st.sampled_from([1, 2, 5, 40]),
    concurrency=st.integers(1, 6),
    batch=st.sampled_from([1, 1, 2, 7]),
    failure_rate=st.sampled_from([0.0, 0.2, 0.6]),
)
def test_order_is_kept_nothing_is_lost_and_concurrency_is_respected(
    random, count, keys, concurrency, batch, failure_rate
):
    lanes = Lanes(concurrency)
    waiting, ended, calls, held = [], [], [], []
    offset = dict.fromkeys(PARTITIONS, 0)
    for _ in range(count):
        partition = random.choice(PARTITIONS)
        lane = random.randrange(keys + 1) or None
        waiting.append(InFlightRecord(partition, 1, offset[partition], None, lane=lane))
        offset[partition] += 1
    polled = list(waiting)
    while waiting or calls or held or lanes.ready_count:
        if waiting and random.random() < 0.5:
            poll, waiting = waiting[:20], waiting[20:]
            lanes.add(poll)
        while started := lanes.take_batch(batch):
            calls.append(started)
            in_calls = [{(each.partition, each.lane) for each in call if each.lane is not None} for call in calls]
            assert sum(map(len, in_calls)) == len(set().union(*in_calls)), "two calls hold one key"
        assert len(calls) == lanes.calls <= concurrency
        # A free handler and a record that may start do not wait for each other.
        assert lanes.calls == concurrency or not lanes.ready_count
        if calls:
            call = calls.pop(random.randrange(len(calls)))
            if random.random() < failure_rate:
                lanes.hold(call)
                held.append(call)
                for each in call:
                    each.alone = True
            else:
                lanes.finish(call)
                ended += call
        if held and random.random() < 0.5:
            lanes.retry(held.pop(random.randrange(len(held))))
    assert sorted(map(id, ended)) == sorted(map(id, polled))
    last = {}
    for each in ended:
        if each.lane is not None:
            name = each.partition, each.lane
            assert each.offset > last.get(name, -1)
            last[name] = each.offset
    assert lanes.lane_count() == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=3), st.integers(1, 5))
def test_a_partition_with_work_is_served_in_every_round(sizes, concurrency):
    lanes = Lanes(concurrency)
    for partition, size in zip(PARTITIONS, sizes, strict=False):
        lanes.add(InFlightRecord(partition, 1, number, None) for number in range(size))
    left = dict(zip(PARTITIONS, sizes, strict=False))
    since_served = dict.fromkeys(left, 0)
    while work := lanes.take():
        lanes.finish([work])
        left[work.partition] -= 1
        for partition in left:
            since_served[partition] = 0 if partition == work.partition else since_served[partition] + 1
            assert not left[partition] or since_served[partition] < len(left)
    assert not any(left.values())

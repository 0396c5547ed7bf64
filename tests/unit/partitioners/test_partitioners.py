"""Where records without a place go."""

import random
from collections import Counter

import pytest

from seamark.errors import ConfigError, UsageError
from seamark.partitioners import (
    BuiltInPartitioner,
    Choices,
    DefaultPartitioner,
    Partitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
    choose_partition,
    load_partitioner,
    partition_for_key,
)

SIX = Choices(6)


def seeded():
    return random.Random(7)


def test_round_robin_spreads_equally_whatever_the_keys():  # J1
    partitioner = RoundRobinPartitioner(seeded())
    places = Counter(partitioner.partition("t", b"same", b"", SIX) for _ in range(600))
    assert places == dict.fromkeys(range(6), 100)


def test_round_robin_passes_over_partitions_without_a_leader():
    partitioner = RoundRobinPartitioner(seeded())
    places = {partitioner.partition("t", None, b"", Choices(6, (1, 4))) for _ in range(10)}
    assert places == {1, 4}


def test_round_robin_counts_each_topic_by_itself():
    partitioner = RoundRobinPartitioner(seeded())
    first = [partitioner.partition("t", None, b"", SIX) for _ in range(6)]
    for _ in range(3):
        partitioner.partition("u", None, b"", SIX)
    assert [partitioner.partition("t", None, b"", SIX) for _ in range(6)] == first


@pytest.mark.parametrize("partitioner", [DefaultPartitioner(), UniformStickyPartitioner(), RoundRobinPartitioner()])
def test_an_explicit_partition_wins(partitioner):  # J2, J4
    assert {choose_partition(partitioner, 5, "t", b"aaa", b"", SIX) for _ in range(20)} == {5}


@pytest.mark.parametrize("explicit", [-1, 6, True, "1"])
def test_an_explicit_partition_that_does_not_exist_is_refused(explicit):
    with pytest.raises(UsageError, match="'t', which has 0 to 5"):
        choose_partition(DefaultPartitioner(), explicit, "t", None, b"", SIX)


def test_the_default_partitioner_places_keys_by_their_hash():  # J2
    partitioner = DefaultPartitioner()
    for key in (b"aaa", b"21", b""):
        assert partitioner.partition("t", key, b"", SIX) == partition_for_key(key, 6)
        # Who leads what does not move a key.
        assert partitioner.partition("t", key, b"", Choices(6, (1,))) == partition_for_key(key, 6)


@pytest.mark.parametrize("kind", [DefaultPartitioner, UniformStickyPartitioner])
def test_records_without_a_key_stay_until_the_batch_is_complete_and_then_move(kind):  # J2, J4
    partitioner = kind(seeded())
    place = partitioner.partition("t", None, b"", SIX)
    assert {partitioner.partition("t", None, b"", SIX) for _ in range(50)} == {place}
    partitioner.batch_completed("t", place, SIX)
    moved = partitioner.partition("t", None, b"", SIX)
    assert moved != place
    partitioner.batch_completed("t", place, SIX)
    assert partitioner.partition("t", None, b"", SIX) == moved


def test_uniform_sticky_ignores_keys_so_equal_keys_may_land_apart():  # J4
    partitioner = UniformStickyPartitioner(seeded())
    places = set()
    for _ in range(20):
        place = partitioner.partition("t", b"same", b"", SIX)
        places.add(place)
        partitioner.batch_completed("t", place, SIX)
    assert len(places) > 1


def test_a_single_partition_is_kept():
    partitioner = UniformStickyPartitioner(seeded())
    for _ in range(3):
        assert partitioner.partition("t", None, b"", Choices(1)) == 0
        partitioner.batch_completed("t", 0, Choices(1))


def test_the_built_in_logic_leaves_after_batch_size_bytes_once_the_last_batch_is_full():  # J7
    built_in = BuiltInPartitioner(16384, seeded())
    many = Choices(1000)
    place = built_in.current(many)
    built_in.appended(place, 16383, many, last_batch_is_full=True)
    assert built_in.current(many) == place
    built_in.appended(place, 1, many, last_batch_is_full=False)
    assert built_in.current(many) == place
    built_in.appended(place, 1, many, last_batch_is_full=True)
    assert built_in.current(many) != place


def test_the_built_in_logic_leaves_at_twice_batch_size_at_the_latest():  # J7
    built_in = BuiltInPartitioner(16384, seeded())
    many = Choices(1000)
    place = built_in.current(many)
    built_in.appended(place, 32767, many, last_batch_is_full=False)
    assert built_in.current(many) == place
    built_in.appended(place, 1, many, last_batch_is_full=False)
    assert built_in.current(many) != place


def test_shorter_queues_are_chosen_more_often_in_proportion():  # J7
    built_in = BuiltInPartitioner(1, seeded())
    built_in.update_load({0: 0, 1: 3, 2: 1})
    places = Counter()
    for _ in range(7000):
        place = built_in.current(Choices(3))
        places[place] += 1
        built_in.appended(place, 2, Choices(3), last_batch_is_full=True)
    # Weights are the longest queue plus one, less the own: 4, 1 and 3.
    assert places[0] / 7000 == pytest.approx(4 / 8, abs=0.03)
    assert places[1] / 7000 == pytest.approx(1 / 8, abs=0.03)
    assert places[2] / 7000 == pytest.approx(3 / 8, abs=0.03)


@pytest.mark.parametrize("load", [{}, {0: 5}, {0: 2, 1: 2, 2: 2}])
def test_equal_queues_are_not_weighted(load):
    built_in = BuiltInPartitioner(1, seeded())
    built_in.update_load(load)
    places = Counter()
    for _ in range(3000):
        place = built_in.current(Choices(3))
        places[place] += 1
        built_in.appended(place, 2, Choices(3), last_batch_is_full=True)
    assert all(abs(count - 1000) < 150 for count in places.values())


def test_the_built_in_logic_avoids_partitions_without_a_leader():
    built_in = BuiltInPartitioner(1, seeded())
    choices = Choices(6, (2, 3))
    places = set()
    for _ in range(30):
        place = built_in.current(choices)
        places.add(place)
        built_in.appended(place, 2, choices, last_batch_is_full=True)
    assert places == {2, 3}


class AlwaysLast(Partitioner):
    def partition(self, topic, key, value, choices):
        return choices.count - 1


class OutOfBounds(Partitioner):
    def partition(self, topic, key, value, choices):
        return choices.count


def test_a_custom_partitioner_is_named_by_class_name_or_instance():
    assert isinstance(load_partitioner(AlwaysLast), AlwaysLast)
    instance = AlwaysLast()
    assert load_partitioner(instance) is instance
    assert choose_partition(instance, None, "t", None, None, SIX) == 5
    assert load_partitioner(None) is None
    kafkas = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    assert isinstance(load_partitioner(kafkas), RoundRobinPartitioner)
    assert isinstance(load_partitioner("uniform_sticky"), UniformStickyPartitioner)
    assert isinstance(load_partitioner("seamark.partitioners.default.DefaultPartitioner"), DefaultPartitioner)


@pytest.mark.parametrize("value", ["nonsense", "no.such.Class", "seamark.errors.ConfigError", 5, Partitioner])
def test_what_is_no_partitioner_is_refused(value):
    with pytest.raises(ConfigError):
        load_partitioner(value)


def test_a_custom_partitioner_that_leaves_the_topic_is_caught():
    with pytest.raises(UsageError, match="OutOfBounds chose partition 6"):
        choose_partition(OutOfBounds(), None, "t", None, None, SIX)

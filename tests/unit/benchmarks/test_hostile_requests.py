"""The requests of the hostile benchmark are what they are meant to be: readable, and as large as they may be."""

from __future__ import annotations

import random

import pytest

from benchmarks.hostile_parts import batches, cases
from benchmarks.hostile_parts.shapes import LIMIT_BYTES, Shape, array_paths, elements, first_fillings, fitted, mutated
from benchmarks.hostile_parts.world import World
from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.api.topic_rules import MOST_CHANGES
from seamark.broker.net.endpoint import MAX_REQUEST_ELEMENTS, Endpoint
from seamark.errors import DecodeError
from seamark.wire.protocol.apis import all_apis
from seamark.wire.protocol.frames import decode_request
from seamark.wire.records.compression import Codec
from seamark.wire.records.record_batch import check_crc, read_header

WORLD = World(
    topics=("wide", "plain", "compacted", "orders"),
    topic_ids=tuple(bytes([number]) * 16 for number in range(1, 5)),
    groups=("billing", "shipping"),
    members=("member-1", "member-2"),
)
LIMIT = 1500


@pytest.mark.parametrize("endpoint", load_endpoints().values(), ids=lambda each: each.api.name)
def test_every_request_that_is_written_can_be_read_in_every_version(endpoint: Endpoint):
    api = endpoint.api
    for version in endpoint.versions:
        for filling in first_fillings(api.name, version):
            if filling.shape.names == "long":
                continue
            header, message = decode_request(filling.fitted(WORLD, LIMIT).frame(WORLD, 1)[4:])
            assert (header.request_api_key, header.request_api_version) == (api.key, version)
            assert type(message) is api.request


def test_an_array_is_filled_up_to_the_limit_and_not_beyond():
    for names in ("same", "existing", "distinct", "empty"):
        shape = fitted(Shape("OffsetCommit", 8, (("topics", 1),), 0, names), "topics.partitions", WORLD, 10_000)
        size = len(shape.frame(WORLD, 1))
        assert 9_000 < size <= 10_000
        _, message = decode_request(shape.frame(WORLD, 1)[4:])
        assert len(message.topics[0].partitions) == dict(shape.counts)["topics.partitions"]


def test_distinct_names_differ_in_a_request_and_from_one_request_to_the_next():
    shape = fitted(Shape("DeleteTopics", 5, (), 0, "distinct"), "topic_names", WORLD, LIMIT)
    first, second = (decode_request(shape.frame(WORLD, salt)[4:])[1].topic_names for salt in (1, 2))
    assert len({*first, *second}) == 2 * len(first) > 50


def test_a_neighbour_is_no_larger_than_the_limit():
    rng = random.Random(0)
    shape = Shape("Fetch", 12, (("topics", 2),), 0, "existing")
    for _ in range(30):
        shape = mutated(shape, WORLD, rng)
        assert len(shape.frame(WORLD, 1)) <= LIMIT_BYTES


def test_a_shape_of_one_version_is_filled_in_another_where_its_array_has_another_name():
    newest = cases.filled(Shape("DeleteTopics", 6, (), 0, "unknown"), "topics", WORLD)
    oldest = cases.in_version(newest, 1, WORLD)
    assert array_paths(all_apis()[20].request, 1) == ["topic_names"]
    _, message = decode_request(oldest.frame(1)[4:])
    assert len(message.topic_names) == MOST_CHANGES
    assert len(oldest.frame(1)) <= LIMIT_BYTES


@pytest.mark.parametrize("endpoint", load_endpoints().values(), ids=lambda each: each.api.name)
def test_elements_are_counted_as_the_broker_counts_them(endpoint: Endpoint):
    for filling in first_fillings(endpoint.api.name, endpoint.versions.last):
        if filling.shape.names == "long":
            continue
        shape = filling.fitted(WORLD, LIMIT)
        body, number = shape.frame(WORLD, 1)[4:], elements(shape)
        decode_request(body, number)
        if number:
            with pytest.raises(DecodeError):
                decode_request(body, number - 1)


def test_an_array_inside_an_empty_one_is_not_filled():
    shape = Shape("OffsetCommit", 8, (("topics", 0),), 0)
    assert elements(fitted(shape, "topics.partitions", WORLD)) == 0


def test_an_array_has_no_more_elements_than_the_broker_reads_unless_that_is_what_is_tried():
    empty = Shape("FindCoordinator", 6, (), 0, "empty")
    assert elements(fitted(empty, "coordinator_keys", WORLD)) == MAX_REQUEST_ELEMENTS
    assert elements(fitted(empty, "coordinator_keys", WORLD, is_beyond=True)) > 10 * MAX_REQUEST_ELEMENTS


@pytest.mark.parametrize("codec", Codec)
def test_a_bomb_is_a_batch_in_order_that_fits(codec: Codec):
    for kind in batches.CONTENTS:
        bomb = batches.bomb(kind, codec, 200_000)
        header = read_header(bomb)
        check_crc(bomb, 0, header)
        assert header.codec is codec
        assert len(bomb) < LIMIT_BYTES


def test_a_lie_is_a_batch_whose_checksum_is_right():
    for lie in batches.lies().values():
        try:
            header = read_header(lie)
        except DecodeError:
            continue
        check_crc(lie, 0, header)

"""The parts of the hostile benchmark and soak do what they say: bombs are stored, lost records are noticed.

An attack that is refused at the door, or a bystander that would not see a loss, would make any broker look good.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.hostile_parts import batches, bystander, cases
from benchmarks.hostile_parts.bystander import Bystander
from benchmarks.hostile_parts.cases import Case
from benchmarks.hostile_parts.login import Address
from benchmarks.hostile_parts.world import Size, World, fill
from seamark import Broker
from seamark.client import Admin, TopicPartition
from seamark.wire.records.compression import Codec
from tests.soak.hostile_parts import checker
from tests.soak.hostile_parts.checker import Checker, missing
from tests.support.broker_driver import Client
from tests.support.waiting import eventually

SMALL_BYTES = 300_000


@pytest.fixture
def address() -> Iterator[Address]:
    with Broker(settings={"log.cleaner.backoff.ms": 50, "group.initial.rebalance.delay.ms": 0}) as broker:
        yield Address(broker.bootstrap)


@pytest.fixture
def world(address: Address) -> World:
    return fill(address, Size(topics=20, wide_partitions=4, groups=1, members=1))


def case_of(world: World, start: str) -> Case:
    return next(each for each in cases.produced(world, SMALL_BYTES) if each.text.startswith(start))


def done(client: Client, case: Case) -> str:
    """Do the case as the search does; why it was not what it says."""
    assert case.check is not None
    for step in case.before:
        if problem := step.check(client.wire.exchange(step.frame(1))):
            return problem
    return case.check(client.wire.exchange(case.frame(1)))


@pytest.mark.parametrize("content", batches.CONTENTS)
def test_a_bomb_just_within_the_limits_is_stored_and_found_by_time(address, content):
    bomb = batches.bomb(content, Codec.ZSTD, batches.UNFOLDED_BYTES)
    with address.connect() as client:
        client.create_topic("bombed")
        answer = client.wire.exchange(batches.produce_frame("bombed", bomb))
        assert batches.produced_codes(answer) == [0]
        found = client.list_offset("bombed", batches.TIMESTAMP_MS + batches.LAST_IS_LATER_MS)
        assert found.offset == batches.last_offset(bomb)


@pytest.mark.parametrize("start", ["to plain", "to compacted", "by time after: records zstd", "of: headers gzip"])
def test_a_case_with_bombs_is_done_on_a_broker_that_stores_them(address, world, start):
    with address.connect() as client:
        assert done(client, case_of(world, start)) == ""


def test_the_compaction_of_bombs_is_seen_to_have_happened(address, world):
    case = case_of(world, "compaction of: records zstd")
    assert case.aftermath is not None
    with address.connect() as client:
        assert case.aftermath(client) == "nothing was cleaned in 4 s"
        assert done(client, case) == ""
        eventually(lambda: case.aftermath(client) == "", "the cleaning of the bombs")


def test_a_case_whose_bombs_are_refused_says_so(address, world):
    case = case_of(world, "by time after: zeros zstd")
    with address.connect() as client:
        client.create_topic("small", max_message_bytes="100")
        refused = batches.produce_frame("small", batches.bomb("zeros", Codec.ZSTD, SMALL_BYTES))
        [step] = case.before
        assert step.check(client.wire.exchange(refused)) == "the broker refused the batches with [10]"
        # Nothing is stored, so the search by time finds nothing.
        assert "the search by time found offset -1" in case.check(client.wire.exchange(case.frame(1)))


def test_the_bystander_commits_produces_reads_and_connects(address):
    bystander.prepare(address)
    with Bystander(address) as beside:
        found = beside.watch(1.0)
    figures = (found.commits_s, found.produces_s, found.fetches_s, found.connects_s)
    assert [len(each) for each in figures] == [100, 10, 10, 1]
    assert found.lost == found.failures == []


def test_the_bystander_notices_an_acknowledged_record_that_is_not_there(address, monkeypatch):
    bystander.prepare(address)
    produce = bystander._produce
    monkeypatch.setattr(bystander, "_produce", lambda *given, **named: produce(*given, **named) + 1000)
    with Bystander(address) as beside:
        found = beside.watch(0.2)
    assert len(found.lost) == len(found.fetches_s) == 2


def test_the_checking_program_notices_records_and_commits_that_are_gone(address):
    with address.connect() as client:
        client.create_topic(checker.TOPIC, checker.PARTITIONS)
    program = Checker(address.settings())
    for number in range(4):
        program.round(number)
    program.close()
    assert program.books.refused == program.books.lost == missing(address, program.books) == []
    partition = TopicPartition(checker.TOPIC, 0)
    with Admin(address.settings()) as admin:
        admin.delete_records({partition: 1}).raise_if_failed()
        admin.alter_group_offsets(checker.GROUP, {partition: 1}).raise_if_failed()
    gone = missing(address, program.books)
    assert len(gone) == 2, gone

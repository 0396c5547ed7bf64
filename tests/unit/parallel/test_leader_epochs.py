"""Commits name a leader epoch, and a truncated log loses no record, neither below the committed offset nor beyond."""

import logging
from types import SimpleNamespace

import pytest

from seamark.parallel.core.ports import Committed, Polled, PolledColumns, ToCommit
from seamark.parallel.core.work import CommitOffsets
from seamark.parallel.settings import Batch, Order
from seamark.wire.offsets.done_ahead import decode, encode
from tests.unit.parallel.test_engine import P0, Driver

COLUMNS = {"batch": Batch(records=5, wait=0.0, arrow=True), "order": Order.NONE}


def said(driver):
    """What the next commit says; it is accepted."""
    [commit] = [action for action in driver.wait(1.0) if isinstance(action, CommitOffsets)]
    driver.do("commit_finished", commit.ticket, dict.fromkeys(commit.offsets))
    return commit.offsets[P0]


def test_a_commit_names_the_leader_epoch_of_the_last_record_before_it():
    driver = Driver()
    driver.poll([0, 1, 2], epoch=3)
    driver.poll([3, 4], epoch=5)
    driver.succeed(0, 1, 2)
    driver.succeed(3)
    assert said(driver) == ToCommit(4, "", 5)


def test_without_a_map_a_commit_that_waits_for_an_older_record_names_the_older_epoch():
    driver = Driver(done_ahead=False)
    driver.poll([0, 1, 2], epoch=3)
    driver.poll([3, 4], epoch=5)
    driver.succeed(0, 2, 3, 4)
    assert said(driver) == ToCommit(1, "", 3)


def test_with_a_map_a_commit_names_the_newest_epoch_that_the_map_speaks_of():
    driver = Driver()
    driver.poll([0, 1, 2], epoch=3)
    driver.poll([3, 4], epoch=5)
    driver.succeed(0, 2, 3)
    offset, metadata, epoch = said(driver)
    assert (offset, epoch, list(decode(metadata, offset))) == (1, 5, [2, 3])


def test_behind_a_gap_the_epoch_is_still_that_of_the_last_record():
    driver = Driver()
    driver.poll([0, 1], epoch=2, position=9)
    driver.succeed(0, 1)
    assert said(driver) == ToCommit(9, "", 2)


@pytest.mark.parametrize("delivery", ["at_least_once", "whole_batch"])
def test_where_nothing_was_read_below_a_commit_it_names_the_epoch_of_the_first_record(delivery):
    # Without an epoch a truncation into the gap before that record goes unnoticed, and what is written there is lost.
    driver = Driver(committed={P0: Committed(-1)}, delivery=delivery, done_ahead=False)
    driver.poll([6, 7], epoch=2)
    driver.poll([8], epoch=3)
    assert said(driver) == ToCommit(6, "", 2)


@pytest.mark.parametrize("columns", [False, True])
def test_a_commit_behind_nothing_but_a_gap_names_the_epoch_of_the_gap(columns):
    driver = Driver(committed={P0: Committed(-1)}, **(COLUMNS if columns else {}))
    if columns:
        driver.do("polled_columns", PolledColumns(P0, None, [], 6, 2))
    else:
        driver.do("polled", Polled(P0, (), 6, 2))
    assert said(driver) == ToCommit(6, "", 2)


def test_a_gap_of_a_later_epoch_ends_what_the_map_says_beyond_it():
    driver = started_from(10, [14, 15], epoch=1)
    driver.do("polled", Polled(P0, (), 13, 2))
    assert said(driver) == ToCommit(13, "", 2)
    driver.poll([13, 14, 15], epoch=2)
    assert driver.started() == [13, 14, 15]


def test_a_position_that_does_not_move_says_nothing_of_epochs():
    driver = started_from(10, [], epoch=3)
    driver.do("polled", Polled(P0, (), 10, 1))
    driver.poll([10, 11], epoch=3)
    driver.succeed(10)
    assert said(driver) == ToCommit(11, "", 3)


def test_records_without_epochs_are_committed_without_one():
    driver = Driver()
    driver.poll([0], epoch=-1)
    driver.succeed(0)
    assert said(driver) == ToCommit(1, "", -1)


@pytest.mark.parametrize("delivery", ["at_most_once", "whole_batch"])
def test_the_other_deliveries_name_an_epoch_too(delivery):
    driver = Driver(delivery=delivery)
    driver.poll([0, 1], epoch=4)
    if delivery == "whole_batch":
        driver.succeed(0, 1)
        assert said(driver) == ToCommit(2, "", 4)
    else:
        [commit] = driver.all_of(CommitOffsets)
        assert commit.offsets[P0] == ToCommit(2, "", 4)


def started_from(offset, done, epoch, **settings):
    return Driver(committed={P0: Committed(offset, encode(offset, done).text, epoch)}, **settings)


# covers: I1
def test_records_that_replaced_what_the_map_says_is_done_are_run(caplog):
    driver = started_from(10, [11, 12, 14, 15], epoch=1)
    driver.poll([10, 11, 12], epoch=1)
    with caplog.at_level(logging.WARNING, "seamark.parallel"):
        driver.poll([13, 14, 15], epoch=2)
    assert driver.started() == [10, 13, 14, 15]
    [message] = caplog.messages
    assert "orders-0 was truncated at offset 13 or below" in message
    assert "epoch 2" in message
    assert "2 offsets" in message
    driver.succeed(10, 13)
    assert said(driver) == ToCommit(14, "", 2)


def test_a_poll_that_crosses_the_truncation_is_cut_in_the_middle():
    driver = started_from(10, [11, 12, 13], epoch=1)
    driver.poll([10, 11], epoch=1)
    records = [
        SimpleNamespace(offset=offset, key=None, value=b"v", headers=(), timestamp_ms=1, leader_epoch=epoch)
        for offset, epoch in ((12, 1), (13, 2), (14, 2))
    ]
    driver.do("polled", Polled(P0, records))
    assert driver.started() == [10, 13, 14]


def test_what_is_left_of_the_old_map_is_not_handed_on_past_a_truncation():
    driver = started_from(10, [12, 20, 21], epoch=1)
    driver.poll([10, 11], epoch=2)
    driver.succeed(11)
    offset, metadata, epoch = said(driver)
    assert (offset, epoch) == (10, 2)
    assert list(decode(metadata, offset)) == [11]


def test_a_change_of_leader_that_truncated_nothing_keeps_the_map():
    driver = started_from(10, [11, 12], epoch=2)
    driver.poll([10, 11], epoch=1)
    driver.poll([12, 13], epoch=2)
    assert driver.started() == [10, 13]


def test_a_map_that_is_handed_on_keeps_the_epoch_it_was_written_under():
    driver = started_from(10, [12, 20], epoch=2)
    driver.poll([10, 11], epoch=1)
    driver.succeed(11)
    assert said(driver).leader_epoch == 2


def test_a_map_of_a_commit_without_an_epoch_is_applied_as_it_is():
    driver = started_from(10, [11, 12], epoch=-1)
    driver.poll([10, 11, 12], epoch=7)
    assert driver.started() == [10]


def test_a_log_that_was_truncated_below_the_committed_offset_is_read_from_there(caplog):
    driver = started_from(10, [11, 12], epoch=1)
    with caplog.at_level(logging.WARNING, "seamark.parallel"):
        driver.poll([8, 9, 10, 11], epoch=2)
    assert driver.started() == [8, 9, 10, 11]
    [message] = caplog.messages
    assert "orders-0 is read again from offset 8, below the position 10" in message
    driver.succeed(8, 9)
    assert said(driver) == ToCommit(10, "", 2)


def test_below_a_truncation_the_epochs_that_were_read_are_kept():
    driver = Driver(done_ahead=False)
    driver.poll([0, 1, 2, 3], epoch=4)
    driver.poll([2, 3], epoch=6)
    driver.succeed(0)
    assert said(driver) == ToCommit(1, "", 4)


def test_columns_of_a_later_epoch_replace_what_was_done():
    pa = pytest.importorskip("pyarrow")
    driver = started_from(10, [11, 12], epoch=1, batch=Batch(5, wait=0.0, arrow=True), order=Order.NONE)
    rows = pa.RecordBatch.from_pydict({"offset": [10, 11, 12]})
    driver.do("polled_columns", PolledColumns(P0, rows, [10, 11, 12], 13, 2))
    [call] = driver.calls.values()
    assert [work.offsets for work in call.works] == [[10, 11, 12]]
    driver.do("succeeded", call)
    assert said(driver) == ToCommit(13, "", 2)

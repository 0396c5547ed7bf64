"""Errors of the Spark source: Spark carries them between processes."""

from __future__ import annotations

import pickle

import pytest

from seamark.spark import errors as source_errors
from seamark.topic_partition import TopicPartition


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

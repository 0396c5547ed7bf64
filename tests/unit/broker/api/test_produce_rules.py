"""A large batch is checked only while its client waits, and does not keep others from being unfolded after that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.hostile_parts import batches
from seamark.broker.api.produce_rules import NobodyWaits, check_head, check_records
from seamark.broker.sharing.reading_thread import OneAtATime, Reading
from seamark.wire.records.compression import LARGE_BYTES, Codec
from tests.unit.broker.groups.group_harness import World


def checking(unfolding: OneAtATime, wanted: list[bool]) -> Any:
    world = World()
    world.create_topic("t")
    partition = world.cluster.partition("t", 0)
    assert partition is not None
    bomb = batches.bomb(batches.CONTENTS[0], Codec.ZSTD, 4 * LARGE_BYTES)
    reader: Any = SimpleNamespace(unfolding=unfolding, reading_thread=None)
    return check_records(check_head(bomb, partition, 9), partition, 0, reader, lambda: wanted[0])


@pytest.mark.parametrize("goes_while", ["it waits", "it is unfolded"])
def test_a_client_that_went_away_gives_up_its_place(goes_while: str) -> None:
    unfolding, wanted = OneAtATime(), [True]
    work: Any = SimpleNamespace(share="s", is_holding=False)
    steps = checking(unfolding, wanted)
    assert next(steps) is unfolding
    assert not unfolding.begin(work), "it has got it at once"
    if goes_while == "it is unfolded":
        reading = next(steps)
        assert isinstance(reading, Reading)
        reading._aside.run()
    wanted[0] = False
    with pytest.raises(NobodyWaits):
        list(steps)
    assert not work.is_holding

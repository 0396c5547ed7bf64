"""The cluster that the golden sessions look at: always the same topics, groups, records and dead letters.

Records were written at fixed times; a command that shows ages is given ``StandingClock``.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from seamark import Broker
from seamark.client import Admin, Consumer, Offset, Producer, TopicPartition
from seamark.parallel.core import dead_letters
from seamark.parallel.core.dead_letters import Provenance
from seamark.wire.offsets import done_ahead
from seamark.wire.offsets.done_ahead import DoneAhead
from tests.support.checkpoints import checkpoint
from tests.support.produced import produce

LONG_TOPIC = "payments.received.from.partners.europe-west"
LONG_GROUP = "settlement-of-partner-payments-nightly-batch"
_NOW_MS = 1_700_000_000_000
_WRITTEN_MS = _NOW_MS - 2 * 86_400_000 - 60_000
# The times are long ago: nothing may be deleted for its age.
_FOR_EVER = {"retention.ms": "-1"}


class StandingClock:
    """In the place of the module ``time`` for a command that shows how old something is."""

    sleep = staticmethod(time.sleep)
    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def time() -> float:
        return _NOW_MS / 1000


class Scenario:
    """``bootstrap`` reaches it; ``masked`` takes out of a text what differs between runs."""

    def __init__(self, broker: Broker, directory: Path, volatile: dict[str, str]) -> None:
        self.bootstrap = broker.bootstrap
        self._directory = directory
        self._volatile = volatile

    def masked(self, text: str) -> str:
        for each, hidden in self._volatile.items():
            text = text.replace(each, hidden)
            text = re.sub(r"(\S*)…(\S+)", lambda found, pair=(each, hidden): _masked_part(found, *pair), text)
        text = text.replace(str(self._directory), "DIR")
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:#####", text)
        # When a commit of the scenario was stored; the times of its records are chosen and stay.
        text = re.sub(r"20(?!23)\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "####-##-##T##:##:##.###Z", text)
        return re.sub(r"seamark-plan-[0-9a-f]{12}", "seamark-plan-############", text)


def _masked_part(found: re.Match[str], whole: str, hidden: str) -> str:
    """A shortened form of something volatile, hidden as far as it can be seen."""
    before, after = found[1], found[2]
    if not (whole.startswith(before) and whole.endswith(after)):
        return found[0]
    return hidden[: len(before)] + "…" + hidden[len(hidden) - len(after) :]


@contextlib.contextmanager
def scenario(directory: Path) -> Iterator[Scenario]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", partitions=3, config=_FOR_EVER)
        broker.create_topic(LONG_TOPIC, partitions=2, config=_FOR_EVER)
        broker.create_topic("orders.dead-letters", partitions=1, config=_FOR_EVER)
        broker.create_topic("clicks", partitions=2, config=_FOR_EVER)
        for index, count in enumerate((120, 80, 40)):
            values = [b'{"order": %d, "customer": "c%d"}' % (number, number % 7) for number in range(count)]
            produce(broker.bootstrap, TopicPartition("orders", index), values, _WRITTEN_MS)
        for index in range(2):
            produce(broker.bootstrap, TopicPartition(LONG_TOPIC, index), [b"paid"] * 1_000, _WRITTEN_MS)
        for index in range(2):
            produce(broker.bootstrap, TopicPartition("clicks", index), [b"click"] * 100, _WRITTEN_MS)
        _write_dead_letters(broker)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            _commit(admin)
            cluster_id = admin.describe_cluster().cluster_id
            with _member(broker) as member_id:
                _files(directory)
                named = member_id.removeprefix("billing-")
                hidden = "billing-" + re.sub(r"[0-9a-zA-Z]", "#", named)
                yield Scenario(broker, directory, {member_id: hidden, cluster_id: "#" * len(cluster_id)})


def _commit(admin: Admin) -> None:
    ahead = done_ahead.encode(50, DoneAhead(50, [(52, 80), (90, 110)])).text
    orders = {TopicPartition("orders", index): Offset(offset) for index, offset in ((0, 120), (1, 75), (2, 40))}
    partners = {TopicPartition(LONG_TOPIC, index): Offset(offset) for index, offset in ((0, 1_000), (1, 400))}
    admin.alter_group_offsets("reports", orders).raise_if_failed()
    admin.alter_group_offsets("shipping", {TopicPartition("orders", 0): Offset(50, ahead)}).raise_if_failed()
    admin.alter_group_offsets(LONG_GROUP, partners).raise_if_failed()
    admin.alter_group_offsets("old-tool", {TopicPartition("orders", 0): Offset(5)}).raise_if_failed()
    # Of the first partition 40 are deleted before they are read; in the second it stands where the log never was.
    clicks = {TopicPartition("clicks", index): Offset(offset) for index, offset in ((0, 20), (1, 130))}
    admin.alter_group_offsets("trends", clicks).raise_if_failed()
    admin.delete_records({TopicPartition("clicks", 0): 60}).raise_if_failed()


@contextlib.contextmanager
def _member(broker: Broker) -> Iterator[str]:
    """Group billing has one member, which has committed some; gives its id."""
    with Consumer(
        bootstrap_servers=broker.bootstrap, group_id="billing", client_id="billing", auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:  # fmt: skip
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.commit({TopicPartition("orders", 0): 100, TopicPartition("orders", 1): 80})
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            [member] = admin.describe_groups(["billing"])["billing"].members
        yield member.member_id


def _write_dead_letters(broker: Broker) -> None:
    def letter(offset: int, error: BaseException) -> list[tuple[str, bytes | None]]:
        told = Provenance(
            TopicPartition("orders", 0), offset, 1_700_000_000_000, "shipping", 5, 1_700_000_100_000 + offset,
            type(error).__name__, str(error), f"Traceback (most recent call last):\n{type(error).__name__}: {error}", 0,
        )  # fmt: skip
        return dead_letters.encode(told, [("trace", b"4711")])

    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for offset, error in ((7, ValueError("the weight 'heavy' is not a number")), (50, KeyError("address"))):
            value = json.dumps({"order": offset}).encode()
            producer.send(
                "orders.dead-letters", value, key=b"customer 13", headers=letter(offset, error), partition=0,
                timestamp_ms=1_700_000_200_000 + offset,
            ).result(20)  # fmt: skip


def _files(directory: Path) -> None:
    """What commands are given as files, in the directory that they run in."""
    done = {0: [{"orders": {"0": 40, "1": 30, "2": 10}}], 1: [{"orders": {"0": 90, "1": 60, "2": 20}}]}
    checkpoint(directory, done, done=[0, 1])
    (directory / "offsets.csv").write_text("reports,orders,0,100\nreports,orders,1,70\n")

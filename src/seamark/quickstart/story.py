"""The story, step by step, and what was measured of it.

    orders     most of them are written; Spark starts beside that, because a JVM takes its time
    billing    processes everything in parallel while the rest of the orders comes in
    shipping   beside it: one order fails each time, and its group stays there while others are done beyond it
    reports    processes everything, is set back by a plan, and processes part of it again
    spark      a streaming query over all orders that commits to its group
    audit      the commits of all four become a lake, with findings and a report

Every figure in the outcome comes from a handler, a query's output, the broker or the lake. Whatever happens, what was
started is ended in the opposite order, with Ctrl-C held back until that is done.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from seamark.client import Admin
from seamark.counts import counted, number_text
from seamark.errors import MissingExtra
from seamark.monitor.scan import GroupView, scan
from seamark.parallel import ConsumerStopped, ParallelConsumer
from seamark.quickstart.audit import Audited, AuditImpossible, audit, new_lake
from seamark.quickstart.cluster import PARTITIONS, Cluster, create_topic, embedded, given
from seamark.quickstart.consumers import THREADS, careful, is_blocked, poisoned, wait_until
from seamark.quickstart.interruption import interrupted_once
from seamark.quickstart.looks import Looks
from seamark.quickstart.orders import CUSTOMERS, Order, Orders
from seamark.quickstart.outcome import GroupOutcome, Outcome
from seamark.quickstart.places import Names, Places
from seamark.quickstart.processed import Processed
from seamark.quickstart.rewinding import rewind
from seamark.quickstart.screen import Quiet, Screen
from seamark.quickstart.spark_query import Written, stream
from seamark.quickstart.spark_thread import SparkThread, spark_thread
from seamark.quickstart.traffic import LiveTraffic, write

# The share of the orders that comes in while consumers work, and over how long: the audit has to see it going on.
_LIVE_SHARE = 0.1
_LIVE_S = 8.0
_LIVE_UNAUDITED_S = 2.0
# The story goes on without a look if none can be had.
_LOOK_WITHIN_MS = 30_000
# The share of its records that reports is set back by.
_REWOUND_SHARE = 0.05
# What is running when the story breaks off is not waited for: it would run again.
_BREAK_OFF_S = 1.0


@dataclass(frozen=True, slots=True)
class Wishes:
    """``config`` is how to reach a given cluster; None asks for an embedded broker."""

    rows: int
    out: Path
    keep: bool
    config: Mapping[str, Any] | None


@dataclass
class _Measured:
    """What the steps found, for the outcome."""

    billing: Processed
    shipping: Processed
    reports: Processed
    written: Written | None = None
    audited: Audited | None = None


def tell(wishes: Wishes, screen: Screen) -> Outcome:
    """Run everything; SeamarkError says what could not be done."""
    started = time.monotonic()
    places = Places.prepare(wishes.out)
    names = Names() if wishes.config is None else Names.fresh()
    try:
        with interrupted_once(), Quiet(str(places.log)), contextlib.ExitStack() as running:
            try:
                outcome = _Story(wishes, places, names, screen, running).tell()
            except KeyboardInterrupt:
                screen.say("Interrupted: cleaning up.")
                raise
    except KeyboardInterrupt:
        places.clear_scratch()
        raise
    places.clear_scratch()
    outcome = replace(outcome, seconds=round(time.monotonic() - started, 1))
    places.mark.write_text(outcome.as_json() + "\n", encoding="utf-8")
    return outcome


class _Story:
    def __init__(
        self, wishes: Wishes, places: Places, names: Names, screen: Screen, running: contextlib.ExitStack
    ) -> None:
        self.wishes = wishes
        self.places = places
        self.names = names
        self.screen = screen
        self.running = running
        self.orders = Orders(wishes.rows)
        self.measured = _Measured(Processed(), Processed(), Processed())
        self.left_out: dict[str, str] = {}

    def tell(self) -> Outcome:
        cluster, admin = self._begin()
        spark = self._start_spark()
        looks = self._looks(cluster, admin) if spark is not None else None
        with looks or contextlib.nullcontext():
            self._work(cluster, admin, looks)
            if spark is not None:
                self._stream(cluster, spark)
        if spark is not None and looks is not None:
            self._audit(cluster, spark, looks)
        return self._outcome(cluster, admin)

    def _work(self, cluster: Cluster, admin: Admin, looks: Looks | None) -> None:
        orders = iter(self.orders)
        live = round(self.wishes.rows * _LIVE_SHARE)
        self._write(cluster, orders, self.wishes.rows - live)
        self._bill_and_ship(cluster, admin, list(orders), looks)
        self._report(cluster, admin)

    def _begin(self) -> tuple[Cluster, Admin]:
        with self.screen.step("broker", "starting" if self.wishes.config is None else "connecting") as step:
            if self.wishes.config is None:
                made = embedded(self.places, keep=self.wishes.keep)
            else:
                made = given(self.wishes.config, self.names, self.screen, keep=self.wishes.keep)
            cluster = self.running.enter_context(made)
            admin = self.running.enter_context(Admin(cluster.config))
            create_topic(admin, self.names.topic)
            what = "embedded broker (no Java) at" if cluster.is_ours else "cluster at"
            step.result = f"{what} {cluster.address}, topic {self.names.topic} with {PARTITIONS} partitions"
        return cluster, admin

    def _start_spark(self) -> SparkThread | None:
        from seamark.spark.session import NoJava, find_java

        try:
            find_java()
            import pyspark  # noqa: F401 - only whether it is there
        except NoJava as missing:
            self._leave_out("spark", str(missing))
        except ImportError:
            self._leave_out("spark", str(MissingExtra("Spark", "spark")))
        else:
            return self.running.enter_context(spark_thread(self.places.spark))
        self._leave_out("audit", "it needs Spark")
        return None

    def _looks(self, cluster: Cluster, admin: Admin) -> Looks | None:
        try:
            return Looks(new_lake(admin, self.places, from_now=not cluster.is_ours), cluster.config)
        except AuditImpossible as error:
            self._leave_out("audit", str(error))
        return None

    def _leave_out(self, part: str, why: str) -> None:
        self.screen.left_out(part, why)
        self.left_out[part] = why

    def _write(self, cluster: Cluster, orders: Iterator[Order], count: int) -> None:
        with self.screen.step("orders", "writing", count) as step:
            write(cluster.config, self.names.topic, islice(orders, count), step.reach)
            share = round(100 * self.orders.hot_share)
            step.result = f"{number_text(count)} written; one of {CUSTOMERS} customers places {share}% of them"

    def _bill_and_ship(self, cluster: Cluster, admin: Admin, live: list[Order], looks: Looks | None) -> None:
        rows, names, measured = self.wishes.rows, self.names, self.measured
        seconds = _LIVE_S if looks is not None else _LIVE_UNAUDITED_S
        billing = careful(cluster.config, names.billing, names.topic, measured.billing)
        shipping = poisoned(cluster.config, names.shipping, names.topic, measured.shipping)
        with _at_work(shipping):
            with (
                self.screen.step("billing", "processing orders as they arrive", rows) as step,
                _at_work(billing),
                LiveTraffic(cluster.config, names.topic, live, seconds, _SeenBlocked(shipping, looks)) as traffic,
            ):
                wait_until(billing, names.billing, lambda: measured.billing.distinct, rows, step.reach)
                billing.stop()
                traffic.raise_if_failed()
                step.result = (
                    f"{number_text(rows)} processed on {THREADS} threads; {number_text(len(live))} arrived while it ran"
                )
            shippable = rows - self.orders.held
            with self.screen.step("shipping", "working around a bad order", shippable) as step:
                wait_until(shipping, names.shipping, lambda: measured.shipping.distinct, shippable, step.reach)
                parked = shipping.status().parked
                shipping.stop()
                view = _view(admin, names.shipping)
                ahead = sum(partition.lag.done_ahead for partition in view.partitions)
                waiting = self.orders.held - 1
                step.result = (
                    f"{parked[0].partition} offset {parked[0].offset} keeps failing: the commit stays there, "
                    f"{number_text(ahead)} later records are done and recorded in the commit"
                    + (f"; {number_text(waiting)} orders of the same customer wait" if waiting else "")
                )

    def _report(self, cluster: Cluster, admin: Admin) -> None:
        rows, names, processed = self.wishes.rows, self.names, self.measured.reports
        with self.screen.step("reports", "processing orders", rows) as step:
            with _at_work(careful(cluster.config, names.reports, names.topic, processed)) as reports:
                wait_until(reports, names.reports, lambda: processed.distinct, rows, step.reach)
            step.say("rewinding by a plan")
            back = max(1, round(rows * _REWOUND_SHARE / PARTITIONS))
            rewound = rewind(admin, names.reports, back, self.places.plan)
            step.say("processing again")
            with _at_work(careful(cluster.config, names.reports, names.topic, processed)) as reports:
                wait_until(reports, names.reports, lambda: processed.repeated, rewound.repeated, lambda _: None)
            step.result = (
                f"{number_text(rows)} processed; then rewound by a plan by {number_text(back)} in each of "
                f"{rewound.partitions} partitions, and {number_text(processed.repeated)} processed again"
            )

    def _stream(self, cluster: Cluster, spark: SparkThread) -> None:
        names, rows = self.names, self.wishes.rows
        with self.screen.step("spark", "starting", rows) as step:
            spark.ready()
            step.say("streaming to Parquet")
            written = spark.run(
                lambda session: stream(session, cluster.config, names.topic, names.spark, self.places, rows, step.reach)
            )
            self.measured.written = written
            step.result = f"{number_text(written.distinct)} streamed to Parquet and committed to the query's group"

    def _audit(self, cluster: Cluster, spark: SparkThread, looks: Looks) -> None:
        with self.screen.step("audit", "reading all commits") as step:
            try:
                audited = spark.run(
                    lambda session: audit(session, cluster.config, self.names, self.places, looks, step.say)
                )
            except AuditImpossible as error:
                self.left_out["audit"] = str(error)
                step.result = f"skipped: {error}"
                return
            self.measured.audited = audited
            step.result = (
                f"{number_text(audited.commits)} commits and {number_text(audited.generations)} generations in the "
                "offsets lake (Parquet); "
                f"{counted(len(audited.found), 'finding')}"
            )

    def _outcome(self, cluster: Cluster, admin: Admin) -> Outcome:
        names, measured, audited = self.names, self.measured, self.measured.audited
        counts = {
            names.billing: (measured.billing.distinct, measured.billing.repeated),
            names.shipping: (measured.shipping.distinct, measured.shipping.repeated),
            names.reports: (measured.reports.distinct, measured.reports.repeated),
        }
        if measured.written is not None:
            counts[names.spark] = (measured.written.distinct, measured.written.repeated)
        groups = []
        for group, (processed, repeated) in counts.items():
            view = _view(admin, group)
            kinds = None
            if audited is not None:
                kinds = tuple(sorted({finding.kind for finding in audited.found if finding.group == group}))
            groups.append(
                GroupOutcome(
                    group,
                    processed,
                    repeated,
                    sum(partition.committed.offset for partition in view.partitions if partition.committed),
                    view.records_behind or 0,
                    view.unfinished or 0,
                    sum(partition.lag.done_ahead for partition in view.partitions),
                    kinds,
                )
            )
        return Outcome(
            cluster.address,
            names.topic,
            tuple(groups),
            audited.found if audited is not None else (),
            self.places.report.resolve() if audited is not None else None,
            self.places.plan.resolve(),
            0.0,
            self.left_out,
            self._kept(cluster),
        )

    def _kept(self, cluster: Cluster) -> str:
        if not self.wishes.keep:
            return ""
        if cluster.is_ours:
            return f"seamark broker --data {self.places.broker.resolve()} serves the same topic and groups"
        return f"topic and groups that begin with {self.names.prefix}"


class _SeenBlocked:
    """Whether the consumer is blocked and a look was taken since: from then on the audit can see it stay there."""

    def __init__(self, consumer: ParallelConsumer, looks: Looks | None) -> None:
        self._consumer = consumer
        self._looks = looks
        self._blocked_ms: float | None = None

    def __call__(self) -> bool:
        if self._blocked_ms is None and is_blocked(self._consumer):
            self._blocked_ms = time.time() * 1000
        if self._blocked_ms is None:
            return False
        waited_ms = time.time() * 1000 - self._blocked_ms
        return self._looks is None or self._looks.last_ms > self._blocked_ms or waited_ms > _LOOK_WITHIN_MS


def _view(admin: Admin, group: str) -> GroupView:
    scanned = scan(admin, [group])
    for error in scanned.failed.values():
        raise error
    return scanned.groups[0]


@contextlib.contextmanager
def _at_work(consumer: ParallelConsumer) -> Iterator[ParallelConsumer]:
    """Started; drained at the end, or broken off if there was an error."""
    with consumer:
        try:
            yield consumer
        except BaseException:
            # The block's end would wait for handlers longer, and raise what is raised here already.
            with contextlib.suppress(ConsumerStopped):
                consumer.stop(drain=_BREAK_OFF_S)
            raise

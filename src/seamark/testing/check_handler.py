"""``check``: is a handler safe with crashes, rebalances and records out of order? Many short lives, each from a seed.

The handler is run for real, inside simulated members of a group in virtual time: no broker, no waiting, and all calls
on the thread that called ``check``.
Checked in every life: no record is lost, a key's records run in their order, commits never pass unfinished work, and
only what no commit had said was done is repeated. With ``effects`` it is also checked that repeats do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from seamark.errors import SeamarkError, UsageError, error_text
from seamark.parallel.core.handler_kinds import check_answer, is_async
from seamark.parallel.pools.call import check_handler
from seamark.parallel.settings import Batch, Commit, Delivery, Order, Retry, Settings, Stop, Then
from seamark.simulation.world.violations import SHOWN_EVENTS, InvariantViolated
from seamark.testing.check_handlers import Handler, argument_of
from seamark.testing.check_lifetime import CheckLifetime
from seamark.testing.check_loop import VirtualLoop
from seamark.testing.check_records import GivenRecord, fresh, given_records, make_logs
from seamark.testing.check_report import Failure, Report

__all__ = ["CheckFailed", "Report", "check"]

_SHOWN_EFFECTS = 400


class CheckFailed(SeamarkError, AssertionError):
    """A guarantee was violated; ``report`` has the details, and the text names the seed that reproduces it."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


def check(
    handler: Handler,
    records: Iterable[Any],
    *,
    seeds: int = 200,
    seed: int | None = None,
    order: Order = Order.KEY,
    effects: Callable[[], Any] | None = None,
    reset: Callable[[], object] | None = None,
    concurrency: int = 8,
    batch: Batch | None = None,
    delivery: Delivery = "at_least_once",
    retry: Retry | None = None,
    then: Then | None = None,
    overlap: bool = False,
    raises: bool = True,
) -> Report:
    """Run ``handler`` over ``records`` in ``seeds`` lives, or in the one of ``seed``; a failure raises ``CheckFailed``.

    ``reset`` is called before each life. ``effects`` returns the effects of the handler, to be compared with
    what one clean pass brings about: so a handler that counts twice, or depends on an order that nobody promises, is
    found. With ``raises=False`` a failure is only in the report.

    With ``overlap`` members also lose their partitions without knowing it, as after a long pause: their late calls then
    run at the same time as those of the new owner. A handler that tolerates this has to check offsets or versions.

    >>> table = {}
    >>> report = check(
    ...     lambda record: table.update({record.key: record.value}),
    ...     [("a", 1), ("b", 1), ("a", 2)],
    ...     seeds=20,
    ...     effects=lambda: dict(table),
    ...     reset=table.clear,
    ... )
    >>> report.ok, report.crashes > 0
    (True, True)
    """
    check_handler(handler)
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise UsageError(f"seeds must be > 0, got {seeds!r}")
    if effects is not None and reset is None:
        raise UsageError(
            "effects needs reset, which is called before each run, so that runs do not see each other's effects"
        )
    if effects is not None and delivery == "at_most_once":
        raise UsageError("effects cannot be compared with at_most_once, where a crash may lose records")
    given = given_records(records)
    settings = Settings(
        order=order,
        concurrency=concurrency,
        batch=batch,
        delivery=delivery,
        retry=retry or Retry(),
        then=then or Stop(),
        commit=Commit(interval=0.2),
        drain=2.0 if overlap else float(1 << 30),
    )
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    report = Report(name, len(given), 0, compares_effects=effects is not None)
    expected = _clean_effects(handler, given, settings, effects, reset) if effects is not None else None
    for life_seed in range(seeds) if seed is None else (seed,):
        report = _live(report, life_seed, handler, given, settings, effects, reset, expected, overlap=overlap)
        if report.failure is not None:
            break
    if raises and report.failure is not None:
        raise CheckFailed(report) from report.failure.error
    return report


def _live(
    report: Report,
    seed: int,
    handler: Handler,
    given: list[GivenRecord],
    settings: Settings,
    effects: Callable[[], Any] | None,
    reset: Callable[[], object] | None,
    expected: Any,
    *,
    overlap: bool,
) -> Report:
    if reset is not None:
        reset()
    # How often commits are made decides how much a crash repeats.
    interval = (0.02, 0.2, 2.0)[seed % 3]
    life = CheckLifetime(seed, handler, given, replace(settings, commit=Commit(interval=interval)), overlap=overlap)
    reason, error = None, None
    try:
        life.run()
    except InvariantViolated as violated:
        reason, error = str(violated), violated.__cause__
    if reason is None and effects is not None:
        actual = effects()
        if actual != expected:
            repeats = f"after {life.truth.repeats} repeats" if life.truth.repeats else "without a repeat"
            reason = f"{repeats} the effects are {_shown(actual)}; after one clean pass they are {_shown(expected)}"
    return replace(
        report,
        seeds=report.seeds + 1,
        runs=report.runs + life.truth.runs.total(),
        repeats=report.repeats + life.truth.repeats,
        most_runs=max(report.most_runs, *life.truth.runs.values(), 0),
        failed_runs=report.failed_runs + life.handlers.failed_runs,
        given_up=report.given_up + len(life.truth.given_up),
        crashes=report.crashes + life.crashes,
        rebalances=report.rebalances + life.group.rebalances,
        commits=report.commits + life.truth.commits,
        failure=None if reason is None else Failure(seed, reason, life.transcript.text(SHOWN_EVENTS), error),
    )


def _clean_effects(
    handler: Handler,
    given: list[GivenRecord],
    settings: Settings,
    effects: Callable[[], Any],
    reset: Callable[[], object] | None,
) -> Any:
    """What the handler brings about when nothing goes wrong and nothing runs beside it."""
    if reset is not None:
        reset()
    records = [fresh(record) for log in make_logs(given, 1).values() for record in log.records]
    size = settings.batch.records if settings.batch else 1
    calls: list[Any] = [records[start : start + size] for start in range(0, len(records), size)]
    loop = VirtualLoop() if is_async(handler) else None
    try:
        for call in calls:
            argument = argument_of(call, settings.batch)
            if loop is None:
                check_answer(handler(argument))
            else:
                _run_on(loop, handler, argument)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        # A handler that fails by design has a policy in ``retry`` and ``then``; then there is no clean pass to compare.
        told = error_text(error)
        raise UsageError(f"effects needs a clean pass, but the handler raised {told}") from error
    finally:
        if loop is not None:
            loop.finish()
    return effects()


def _run_on(loop: VirtualLoop, handler: Handler, argument: Any) -> None:
    task = loop.create_task(_awaited(handler, argument))
    loop.advance(loop.time())
    while not task.done():
        moment = loop.next_moment()
        if moment is not None:
            loop.advance(moment)
        elif not loop.wait_outside(lambda: task.done() or loop.next_moment() is not None):
            raise UsageError("effects needs a clean pass, but the handler waits for something that never happens")
    task.result()


async def _awaited(handler: Handler, argument: Any) -> None:
    check_answer(await handler(argument))  # type: ignore[misc]


def _shown(effects: Any) -> str:
    text = repr(effects)
    return text if len(text) <= _SHOWN_EFFECTS else text[:_SHOWN_EFFECTS] + "…"

"""A user's handler inside a simulated member: called for real, at a moment of virtual time that the seed draws.

Between the call and its report lies a while, as in life: a crash in it leaves the effects of a call behind that nobody
knows of. An ``async`` handler is ended by a crash where it stands, at one of its awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from seamark.errors import UsageError
from seamark.parallel.core.handler_kinds import check_answer, is_async
from seamark.parallel.settings import Batch
from seamark.simulation.parallel.log import SimulatedRecord
from seamark.simulation.parallel.world import HandlerOwner, Report
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.violations import InvariantViolated
from seamark.testing.check_loop import REAL_WAIT_S, VirtualLoop
from seamark.testing.check_records import fresh

Handler = Callable[[Any], object]


def argument_of(records: list[SimulatedRecord], batch: Batch | None) -> Any:
    """What the handler is called with: a record, a list, or a ``pyarrow.RecordBatch``."""
    if batch is None:
        return records[0]
    if not batch.arrow:
        return records
    from seamark.parallel.core.columns import batch_of_records

    return batch_of_records(records)


class UserHandlers:
    """``on_moment`` is called at every step of a call, before anything else happens: accidents wait for their turn."""

    def __init__(
        self,
        handler: Handler,
        loop: EventLoop,
        draw: Callable[[], float],
        *,
        batch: Batch | None,
        on_moment: Callable[[], None],
    ) -> None:
        self._handler = handler
        self._loop = loop
        self._draw = draw
        self._batch = batch
        self._on_moment = on_moment
        self.failed_runs = 0
        self.last_error: BaseException | None = None
        self._asyncio: VirtualLoop | None = None
        self._tasks: dict[asyncio.Task[BaseException | None], HandlerOwner] = {}
        if is_async(handler):
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                self._asyncio = VirtualLoop()
            else:
                raise UsageError("check runs an async handler on its own event loop: call it outside of a running loop")

    def close(self) -> None:
        if self._asyncio is not None:
            self._asyncio.finish()

    # What members ask for.

    def start(self, member: HandlerOwner, records: list[SimulatedRecord], report: Report) -> None:
        self._loop.call_later(int(self._draw() ** 3 * 60), self._invoke, member, records, report)

    def member_gone(self, member: HandlerOwner) -> None:
        for task in [task for task, owner in self._tasks.items() if owner is member]:
            del self._tasks[task]
            task.cancel()

    # One call.

    def _invoke(self, member: HandlerOwner, records: list[SimulatedRecord], report: Report) -> None:
        self._on_moment()
        if not member.is_alive:
            return
        argument = argument_of([fresh(record) for record in records], self._batch)
        if self._asyncio is not None:
            self._begin(self._asyncio, member, argument, report)
            return
        try:
            # As in the pools, what a handler sets in its context is not for the next call.
            check_answer(copy_context().run(self._handler, argument))
        except (Exception, SystemExit, GeneratorExit, asyncio.CancelledError) as error:  # noqa: BLE001 - its failure
            self._report_later(report, error)
        else:
            self._report_later(report, None)

    def _report_later(self, report: Report, error: BaseException | None) -> None:
        if error is not None:
            self.failed_runs += 1
            self.last_error = error

        def told() -> None:
            self._on_moment()
            report(error)

        self._loop.call_later(int(self._draw() ** 3 * 120), told)

    # Coroutines.

    def _begin(self, loop: VirtualLoop, member: HandlerOwner, argument: Any, report: Report) -> None:
        async def run() -> BaseException | None:
            try:
                check_answer(await self._handler(argument))  # type: ignore[misc]
            except SystemExit as error:
                # Out of a task it would end the loop.
                return error
            return None

        task = loop.create_task(run())
        self._tasks[task] = member

        def ended(done: asyncio.Task[BaseException | None]) -> None:
            if self._tasks.pop(done, None) is None:
                # Its member crashed; nobody hears of it.
                if not done.cancelled():
                    done.exception()
                return
            error = asyncio.CancelledError() if done.cancelled() else done.exception() or done.result()
            self._report_later(report, error)

        task.add_done_callback(ended)
        self._pump(loop)

    def _pump(self, loop: VirtualLoop) -> None:
        """Run the coroutines up to now, and come back when the next of them wakes up."""
        loop.advance(self._loop.now_ms / 1000)
        following = loop.next_moment()
        if following is not None:
            self._loop.call_at(int(following * 1000) + 1, self._pump, loop)
            return
        waiting = list(self._tasks)

        def has_moved() -> bool:
            return loop.next_moment() is not None or any(task.done() for task in waiting) or not waiting

        if not loop.wait_outside(has_moved):
            raise InvariantViolated("a handler ends", f"it waited {REAL_WAIT_S:.0f} s for something outside")
        if loop.next_moment() is not None:
            self._loop.call_later(1, self._pump, loop)

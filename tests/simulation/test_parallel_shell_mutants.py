"""The lifetimes run the shell that ships: each bug planted in the runtime, its mailbox or its process pool is found.

A bug replaces ``old``, which stands in the source of its function exactly once, by ``new``. ``seed`` is one that finds
it quickly; some seeds from there on are tried, so that a change to what seeds draw does not make the list useless.
"""

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from seamark.parallel.pools.pool import Mailbox
from seamark.parallel.pools.process_child import HandlerProcess
from seamark.parallel.pools.processes import ProcessPool
from seamark.parallel.run.runtime import Runtime
from seamark.parallel.settings import DeadLetter, Retry
from seamark.simulation.parallel.cases import Case
from seamark.simulation.parallel.lifetime import ParallelLifetime, ParallelLifetimeFailed

TRIED = 60


class Planted(NamedTuple):
    owner: type
    function: str
    old: str
    new: str
    why: str
    seed: int = 0
    case: Callable[[Case], Case] = lambda case: case


def with_calls_that_wait(case: Case) -> Case:
    """One handler at a time, and calls that wait for it; many accidents."""
    settings = replace(case.settings, concurrency=1, batch=None, delivery="at_least_once")
    return replace(case, settings=settings, ahead=4, processes=0, records=300, faults=30)


def without_time_to_drain(case: Case) -> Case:
    settings = replace(case.settings, drain=0.0, delivery="at_least_once")
    return replace(case, settings=settings, is_cooperative=False, processes=0, records=300, faults=30)


def with_failing_polls(case: Case) -> Case:
    """Accidents are many, so that some of them are these."""
    return replace(case, faults=30)


def with_dead_letters(case: Case) -> Case:
    settings = replace(case.settings, then=DeadLetter(max_ratio=None), retry=Retry(attempts=1))
    return replace(case, settings=settings, poison_chance=0.3, faults=30)


BUGS = [
    Planted(
        HandlerProcess,
        "conclude",
        "return endings + concluded, not_begun",
        "return endings + [Ending(call, None) for call, _ in concluded], not_begun",
        "a dead process is believed to have ended all that it had begun",
    ),
    Planted(
        HandlerProcess,
        "conclude",
        "endings = self.take(0.0)",
        "ended = sum(state >= RETURNED for state in self._process.states); "
        "endings = [Ending(self._calls.held.popleft(), None) for _ in range(min(ended, self.held_count))]",
        "a dead process is believed by the number of calls it ended, before its pipe is read",
    ),
    Planted(
        ProcessPool,
        "_report",
        "if error is None:",
        "if error is None or isinstance(error, HandlerErrorLost):",
        "a call whose error was lost with its process counts as done",
    ),
    Planted(
        ProcessPool,
        "_died",
        "self._queue.extendleft(reversed(not_begun))",
        "not_begun.clear()",
        "what a dead process had not begun is forgotten",
    ),
    Planted(
        ProcessPool,
        "_died",
        "self._queue.extendleft(reversed(not_begun))",
        "self._queue.extendleft([*not_begun, *(call for call, error in endings if error is not None)])",
        "what a dead process had begun runs elsewhere, and is reported as well",
    ),
    Planted(
        ProcessPool,
        "withdraw",
        "return taken_back(self._queue)",
        "return taken_back(self._queue) + [call for child in self._running.values() for call in child.held]",
        "calls that a process has are withdrawn",
    ),
    Planted(
        ProcessPool,
        "_give",
        "        for call in calls:\n            self._give(child, [call])",
        "        self._report([Ending(call, error) for call in calls[:1]])",
        "calls beside one that cannot be sent are lost",
        seed=29,
    ),
    Planted(
        Runtime,
        "_commit",
        "        finished(self._port.commit(action.offsets, timeout=COMMIT_S))",
        "        results = self._port.commit(action.offsets, timeout=COMMIT_S)\n"
        "        finished(results)\n"
        "        finished(results)",
        "a commit's answer is applied twice",
    ),
    Planted(
        Runtime,
        "_commit",
        "if action.must_wait:",
        "if action.must_wait and False:",
        "a commit that must be waited for is sent without waiting",
    ),
    Planted(
        Runtime,
        "_commit",
        "        self._port.commit(action.offsets, finished)",
        "        self._port.commit(action.offsets, finished)\n        finished(dict.fromkeys(action.offsets))",
        "a commit counts as accepted when it is sent",
    ),
    Planted(
        Runtime,
        "_withdraw",
        "self.pool.start(kept)",
        "self.pool.start(calls)",
        "calls that are withdrawn are started as well",
        case=with_calls_that_wait,
    ),
    Planted(
        Runtime,
        "_withdraw",
        "    if kept:\n        self.pool.start(kept)\n",
        "",
        "calls of partitions that stay are lost when others go",
        case=with_calls_that_wait,
    ),
    Planted(
        Runtime,
        "on_revoked",
        "deadline = clock() + self._revoke_s",
        "deadline = clock()",
        "a revocation does not wait for handlers",
    ),
    Planted(
        Runtime,
        "on_revoked",
        "not engine.is_drained(partitions)",
        "not engine.is_drained(partitions[:1])",
        "partitions are released when the first of them is drained",
    ),
    Planted(
        Runtime,
        "on_revoked",
        "        self._read_mail()\n        self._perform(engine.tick(clock()))",
        "        self._perform(engine.tick(clock()))",
        "what ends while a partition goes is read when it has gone",
    ),
    Planted(
        Runtime,
        "on_revoked",
        "        self._read_mail()\n    self._perform(engine.revoked(partitions, clock()))",
        "        pass\n    self._perform(engine.revoked(partitions, clock()))",
        "what had ended before a partition goes is read when it has gone",
        case=without_time_to_drain,
    ),
    Planted(
        Runtime,
        "on_revoked",
        "        self._perform(engine.release(partitions, clock()))",
        "        pass",
        "partitions are never released",
    ),
    Planted(
        Runtime,
        "on_lost",
        "    self._withdraw(partitions)",
        "",
        "calls of lost partitions are not withdrawn",
        case=with_calls_that_wait,
    ),
    Planted(
        Runtime,
        "_take",
        "for polled in batches:",
        "for polled in batches[:1]:",
        "of a poll only the first partition is taken",
    ),
    Planted(
        Runtime,
        "_in_trouble",
        "and not getattr",
        "and getattr",
        "an error of a poll that passes by itself ends the consumer",
        case=with_failing_polls,
    ),
    Planted(
        Runtime,
        "_in_trouble",
        "if is_passing and",
        "if",
        "an error of a poll that does not pass is waited out",
        case=with_failing_polls,
    ),
    Planted(
        Runtime,
        "_failed",
        "actions = engine.failed(call, error, now)",
        "self._perform(engine.succeeded_all([call], now)); return",
        "a failed call counts as done",
    ),
    Planted(
        Runtime,
        "_perform_all",
        "            self.pool.start(calls)\n            calls = []",
        "            self.pool.start(calls)",
        "calls that were started before a commit are started again behind it",
    ),
    Planted(
        Runtime,
        "_write_dead_letter",
        "lambda now: written(error, now)",
        "lambda now: written(None, now)",
        "a dead letter that was refused counts as written",
        case=with_dead_letters,
    ),
    Planted(
        Runtime,
        "_write_dead_letter",
        "        done(error)",
        "        pass",
        "a dead letter that is refused at once is waited for for ever",
        seed=69,
        case=with_dead_letters,
    ),
    Planted(
        Mailbox,
        "wait_elsewhere",
        "    self.is_waiting = True\n    if self:\n        self.is_waiting = False\n",
        "    if self:\n        return False\n    self.is_waiting = True\n",
        "mail that comes between the last look and the wait is not announced",
    ),
    Planted(
        Mailbox,
        "take_succeeded",
        "return [calls.popleft() for _ in range(len(calls))]",
        "return list(calls)",
        "calls that ended are read again and again",
    ),
]


def plant(monkeypatch, bug):
    function = getattr(bug.owner, bug.function)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(bug.old) == 1, f"{bug.old!r} stands {source.count(bug.old)} times in {bug.function}"
    module = sys.modules[bug.owner.__module__]
    names = dict(vars(module))
    names.update(vars(sys.modules["seamark.parallel.pools.process_calls"]))
    exec(compile(source.replace(bug.old, bug.new), module.__file__, "exec"), names)
    monkeypatch.setattr(bug.owner, bug.function, names[bug.function])


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.why.replace(" ", "_"))
def test_a_shell_broken_on_purpose_is_found(bug, monkeypatch):
    plant(monkeypatch, bug)
    for seed in range(bug.seed, bug.seed + TRIED):
        try:
            ParallelLifetime(seed, bug.case(ParallelLifetime(seed).case)).run()
        except ParallelLifetimeFailed:
            return
    pytest.fail(f"{TRIED} lifetimes were lived through although {bug.why}")

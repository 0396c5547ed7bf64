"""The testing kit as its users see it: what passes, what is found, how it is told, and that a seed replays."""

import asyncio
import functools
import subprocess
import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from seamark.errors import UsageError
from seamark.parallel import Batch, Order, Retry, Skip
from seamark.testing import CheckFailed, check

RECORDS = [(f"key-{number % 5}", number) for number in range(30)]


class Table:
    """What a handler writes to, as a user's test would have it."""

    def __init__(self):
        self.rows = {}

    def upsert(self, record):
        self.rows[record.key] = record.value

    def count(self, record):
        self.rows[record.key] = self.rows.get(record.key, 0) + 1

    def upsert_newer(self, record):
        if self.rows.get(record.key, -1) < record.offset:
            self.rows[record.key] = record.offset

    def effects(self):
        return {"effects": lambda: dict(self.rows), "reset": self.rows.clear}


def test_a_handler_that_is_safe_to_repeat_passes_and_the_report_says_what_it_lived_through():
    table = Table()
    report = check(table.upsert, RECORDS, seeds=40, **table.effects())
    assert report.ok
    assert (report.records, report.seeds) == (30, 40)
    assert report.crashes > 10
    assert report.repeats > 10
    assert report.runs == 30 * 40 + report.repeats
    lines = str(report).splitlines()
    assert lines[0] == "Table.upsert: ok, 30 records, 40 seeds"
    assert "the same as after one clean pass" in lines[-1]


def test_a_handler_that_counts_twice_is_found_and_the_seed_replays_exactly():
    table = Table()
    with pytest.raises(CheckFailed) as caught:
        check(table.count, RECORDS, seeds=40, **table.effects())
    failure = caught.value.report.failure
    assert isinstance(caught.value, AssertionError)
    assert f"replay it with check(…, seed={failure.seed})" in str(caught.value)
    assert "repeats the effects are" in failure.reason
    again = check(table.count, RECORDS, seed=failure.seed, raises=False, **table.effects())
    assert again.failure == failure


def test_without_effects_repeats_are_counted_and_not_judged():
    table = Table()
    report = check(table.count, RECORDS, seeds=20)
    assert report.ok
    assert "give effects= and reset=" in str(report)


def test_a_coroutine_that_holds_a_value_over_an_await_is_found():
    table = {}

    async def add(record):
        total = table.get("total", 0)
        await asyncio.sleep(0.01)
        table["total"] = total + record.value

    report = check(add, RECORDS, seeds=10, effects=lambda: dict(table), reset=table.clear, raises=False)
    assert not report.ok


def test_a_crash_ends_a_coroutine_where_it_stands():
    table = {}

    async def half(record):
        table.setdefault(record.key, []).append(record.value)
        await asyncio.sleep(1.0)
        table[record.key].append(-record.value)

    def unpaired():
        return {key: sum(values) for key, values in table.items()}

    report = check(half, RECORDS, seeds=40, effects=unpaired, reset=table.clear, raises=False)
    assert "the effects are" in report.failure.reason


def test_sleeping_coroutines_cost_no_time_and_threads_are_waited_for():
    table, seen = {}, set()

    async def slow(record):
        await asyncio.sleep(20)
        seen.add(await asyncio.to_thread(threading.get_ident))
        table[record.key] = record.value

    report = check(slow, RECORDS[:8], seeds=4, effects=lambda: dict(table), reset=table.clear)
    assert report.ok
    assert threading.get_ident() not in seen


@pytest.mark.parametrize("order", list(Order))
def test_each_order_and_batches_are_lived_through(order):
    seen = []
    report = check(
        lambda records: seen.extend(records), RECORDS, seeds=10, order=order, batch=Batch(records=4, wait=0.01)
    )
    assert report.ok
    assert {record.value for record in seen} == set(range(30))


def test_a_handler_of_columns_is_given_record_batches():
    seen = set()
    records = [(b"key", b"%d" % number) for number in range(30)]
    options = {"order": Order.NONE, "batch": Batch(records=4, wait=0.01, arrow=True)}
    report = check(
        lambda batch: seen.update(batch.column("value").to_pylist()),
        records,
        seeds=10,
        effects=lambda: set(seen),
        reset=seen.clear,
        **options,
    )
    assert report.ok
    assert seen == {value for _, value in records}


def test_a_key_s_records_come_to_the_handler_in_their_order():
    first_runs = {}

    def remember(record):
        values = first_runs.setdefault(record.key, [])
        if record.value not in values:
            values.append(record.value)

    for seed in range(10):
        first_runs.clear()
        check(remember, RECORDS, seed=seed)
        assert all(values == sorted(values) for values in first_runs.values())


def test_late_calls_of_a_former_owner_break_a_plain_upsert_and_not_one_that_looks_at_offsets():
    table = Table()
    one_key = [("key", number) for number in range(25)]
    report = check(table.upsert, one_key, seeds=100, overlap=True, raises=False, **table.effects())
    assert not report.ok
    assert check(table.upsert_newer, one_key, seeds=40, overlap=True, **table.effects()).ok


def test_a_handler_that_raises_fails_the_check_unless_the_settings_say_what_to_do():
    def refuse(record):
        if record.value == 7:
            raise ValueError("seven")

    with pytest.raises(CheckFailed, match=r"offset .* failed 2 times: ValueError: seven"):
        check(refuse, RECORDS, seeds=3, retry=Retry(attempts=2))
    report = check(refuse, RECORDS, seeds=5, retry=Retry(attempts=2), then=Skip(max_ratio=None))
    assert report.given_up >= 5
    assert report.failed_runs >= 10


def test_what_the_handler_raised_is_the_cause_of_the_failed_check():
    def refuse(record):
        raise ZeroDivisionError("as always")

    with pytest.raises(CheckFailed, match="as always") as failed:
        check(refuse, RECORDS, seeds=2)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_a_handler_that_ends_the_program_is_a_handler_that_failed():
    def leave(record):
        raise SystemExit(3)

    with pytest.raises(CheckFailed, match="SystemExit: 3"):
        check(leave, RECORDS, seeds=1)


def test_a_plain_function_that_returns_a_coroutine_is_told_so():
    async def handle(record):
        pass

    with pytest.raises(CheckFailed, match="await it in an async def handler"):
        check(lambda record: handle(record), RECORDS, seeds=1)


def generator_of(record):
    yield record


async def async_generator_of(record):
    yield record


@pytest.mark.parametrize("handler", [generator_of, functools.partial(generator_of), async_generator_of])
def test_a_generator_function_is_refused_as_by_the_consumer(handler):
    with pytest.raises(UsageError, match="generator function, so calling it runs nothing"):
        check(handler, RECORDS, seeds=1)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("batch", [None, Batch(5), Batch(5, arrow=True)], ids=["one", "batch", "arrow"])
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (generator_of, "a generator, which is not run"),
        (async_generator_of, "an async generator, which is not run"),
        (lambda given: Future(), "a future, which is not waited for"),
    ],
)
def test_an_answer_that_stands_for_work_to_be_done_is_found(answer, sentence, batch, is_async):
    async def handle_async(given):
        return answer(given)

    def handle(given):
        return answer(given)

    order = Order.NONE if batch is not None and batch.arrow else Order.KEY
    records = [(b"key", b"value")] * 3
    handler = handle_async if is_async else handle
    with pytest.raises(CheckFailed, match=sentence):
        check(handler, records, seed=0, batch=batch, order=order, retry=Retry(attempts=1))
    with pytest.raises(UsageError, match=sentence):
        check(handler, records, seed=0, batch=batch, order=order, effects=dict, reset=dict)


def test_a_coroutine_that_exits_has_failed_and_ends_nothing_else():
    async def handle(record):
        if record.value == 7:
            raise SystemExit(3)

    report = check(handle, RECORDS, seeds=3, retry=Retry(attempts=1), then=Skip(max_ratio=None))
    assert report.ok
    assert report.failed_runs >= 3


def test_an_async_partial_is_awaited():
    seen = []

    async def handle(state, record):
        state.append(record.value)

    check(functools.partial(handle, seen), RECORDS, seed=0)
    assert set(seen) == set(range(30))


def test_a_coroutine_that_catches_its_cancellation_ends_all_the_same():
    async def stubborn(record):
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await asyncio.sleep(5)

    assert check(stubborn, RECORDS[:10], seeds=6).ok


def test_at_most_once_nothing_runs_twice():
    runs = {}

    def run(record):
        runs[record.value] = runs.get(record.value, 0) + 1

    for seed in range(15):
        runs.clear()
        report = check(run, RECORDS, seed=seed, delivery="at_most_once")
        assert (report.repeats, max(runs.values())) == (0, 1)


def test_what_a_handler_does_to_a_record_is_not_seen_by_the_next_delivery():
    def spoil(record):
        assert record.value == {"items": [1]}
        record.value["items"].append(2)

    assert check(spoil, [("a", {"items": [1]})] * 10, seeds=10).repeats > 0


@pytest.mark.parametrize(
    "record",
    [
        "value",
        (None, "value"),
        {"value": "value", "headers": [("trace", b"1")]},
        SimpleNamespace(key=None, value="value", headers=(), timestamp_ms=1, topic="orders", partition=3),
    ],
)
def test_records_come_in_whatever_form_is_at_hand(record):
    seen = []
    check(seen.append, [record], seed=0)
    assert seen[0].value == "value"
    assert seen[0].offset == 0
    if isinstance(record, SimpleNamespace):
        assert (seen[0].topic, seen[0].partition) == ("orders", 3)
    if isinstance(record, dict):
        assert seen[0].headers == (("trace", b"1"),)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"handler": None}, "handler=None: is not callable"),
        ({"records": []}, "at least one record"),
        ({"records": [{"key": 1}]}, "must have value"),
        ({"seeds": 0}, "seeds must be > 0"),
        ({"effects": dict}, "effects needs reset"),
        ({"effects": dict, "reset": dict, "delivery": "at_most_once"}, "cannot be compared"),
        ({"handler": lambda _: 1 / 0, "effects": dict, "reset": dict}, "raised ZeroDivisionError"),
    ],
)
def test_wrong_use_is_one_sentence(arguments, sentence):
    with pytest.raises(UsageError, match=sentence):
        check(**{"handler": print, "records": [1], **arguments})


def test_an_async_handler_inside_a_running_loop_is_refused_with_the_reason():
    async def handle(record):
        pass

    async def inside():
        check(handle, [1], seeds=1)

    with pytest.raises(UsageError, match="outside of a running loop"):
        asyncio.run(inside())


def test_importing_the_testing_kit_loads_nothing_heavy():
    statement = "import sys, seamark.testing; print(sorted(n for n in sys.modules if n.startswith('seamark.')))"
    loaded = subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True, text=True).stdout
    assert "seamark.simulation" not in loaded
    assert "seamark.parallel" not in loaded

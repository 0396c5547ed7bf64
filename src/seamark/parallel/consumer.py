"""The parallel consumer that users make.

    def handle(record): ...

    ParallelConsumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"}, ["orders"], handle).run()

``run`` works in the calling thread until a signal, ``stop`` or a record that cannot be processed ends it; ``start``
works in a thread of its own. All other calls may come from any thread: they are handed to the owner, which answers.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from seamark.errors import ConfigError, SeamarkError, UsageError
from seamark.parallel.adapters import check_config, open_port, read_deserializer
from seamark.parallel.core.actions import Action, StopReason
from seamark.parallel.observe.status import State, Status, Summary
from seamark.parallel.pools.calls import Argument, Handler, UnreadableRecord, where_to_run
from seamark.parallel.pools.mailbox import Mailbox
from seamark.parallel.pools.pool import Pool, calls_ahead
from seamark.parallel.pools.whereabouts import Home, is_handler_process, running_in
from seamark.parallel.run import at_exit
from seamark.parallel.run.interpreter import tuned
from seamark.parallel.run.report import last_words, status_of
from seamark.parallel.run.runtime import Runtime
from seamark.parallel.run.signals import DrainOnSignal
from seamark.parallel.settings import Batch, Commit, Delivery, Order, Retry, Settings, Stop, Then
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")

# How long a question to the owner may wait: it answers between two events, and a commit is the longest of them.
_ANSWER_S = 15.0
# How often a condition that somebody waits for is looked at.
_LOOK_S = 0.02
# Whoever starts a consumer owns it before this has passed.
_UNOWNED_S = 5.0
_NO_CONSUMER_HERE = (
    "stop() was called in a handler process, where this consumer does not run: to end it from there, raise an error "
    "that is not retried, with then=Stop()"
)


class ConsumerStopped(SeamarkError):
    """The consumer ended by itself; ``reason`` says why, ``summary`` how far it got.

    ``__cause__`` is the error behind it: the handler's own exception, what the broker or the client said.
    """

    def __init__(self, reason: str, summary: Summary) -> None:
        super().__init__(f"the parallel consumer stopped: {reason}")
        self.reason = reason
        self.summary = summary


class OwnerBusy(SeamarkError):
    """The consumer waits for the broker, or for a commit, and could not answer yet; ask again."""


class ParallelConsumer:
    """Runs ``handler`` on the records of ``topics``, many at once, and commits no further than what is done.

    It is started once, by ``run``, ``start`` or ``with``. Settings that cannot be are a ConfigError when it is made.

    If it ends by itself, ``run``, ``wait`` and ``wait_until`` raise ConsumerStopped, each time. ``stop`` and the end of
    a ``with`` block raise it if nobody has been told yet.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: str | Sequence[str],
        handler: Handler,
        *,
        order: Order = Order.KEY,
        concurrency: int = 64,
        run_in: str = "auto",
        batch: Batch | None = None,
        delivery: Delivery = "at_least_once",
        retry: Retry = Retry(attempts=5, delay=0.2, factor=2, max_delay=30),  # noqa: B008 - a frozen value
        then: Then = Stop(),  # noqa: B008 - a frozen value
        commit: Commit = Commit(interval=1.0),  # noqa: B008 - a frozen value
        buffer_bytes: int = 64 << 20,
        done_ahead: bool | int = True,
        drain: float = 30.0,
        client: str = "seamark",
        stall_after: float = 60.0,
        key: Any = bytes,
        value: Any = bytes,
    ) -> None:
        """``config`` are Kafka's keys. ``key`` and ``value`` say how they are deserialized, as for ``Consumer``."""
        self.settings = Settings(
            order=order,
            concurrency=concurrency,
            batch=batch,
            delivery=delivery,
            retry=_with_unreadable(retry),
            then=then,
            commit=commit,
            buffer_bytes=buffer_bytes,
            done_ahead=done_ahead,
            drain=drain,
            stall_after=stall_after,
        )
        check_config(client, config)
        self._topics = _read_topics(topics)
        self._handler = handler
        self._place = where_to_run(handler, run_in)
        self._argument = Argument(batch, read_deserializer("key", key), read_deserializer("value", value))
        if batch is not None and batch.arrow:
            _check_arrow(self._argument)
        if self._place == "processes":
            from seamark.parallel.pools.processes import pickled_handler

            pickled_handler(handler, self._argument)
        self._group: str = config["group.id"]
        # The group waits for a member that gives partitions up, but no longer than this.
        self._revoke_s = min(drain, 0.8 * _milliseconds(config.get("max.poll.interval.ms", 300_000)) / 1000)
        # An eighth of what may be held is fetched ahead, as bytes; the rest is for records at work. More would only be
        # memory: the allocator keeps two or three times what fetched frames of all sizes take up.
        self._port = open_port(client, config, max(1 << 20, buffer_bytes // 8))
        self._home = Home("ParallelConsumer")
        self._state = State.NEW
        self._runtime: Runtime | None = None
        self._ended = threading.Event()
        self._summary: Summary | None = None
        self._last_status: Status | None = None
        self._known_status: Status | None = None
        self._starting = threading.Lock()
        self._owner: int | None = None
        # Whether somebody was told that it ended by itself.
        self._is_told = False

    # -- running

    def run(self) -> Summary:
        """Work until the end; SIGTERM and SIGINT drain. ConsumerStopped if it was not asked to end."""
        runtime = self._begin()
        with DrainOnSignal(self._ask_to_stop):
            self._own(runtime)
        self._raise_failure()
        assert self._summary is not None
        return self._summary

    def start(self) -> Self:
        """Work in a thread of its own. A program that ends without ``stop`` drains it first, and says so in the log."""
        self._own_thread().start()
        return self

    def _own_thread(self) -> threading.Thread:
        runtime = self._begin()
        return threading.Thread(target=self._own, args=(runtime,), name="seamark-parallel", daemon=True)

    def wait(self, timeout: float | None = None) -> Summary | None:
        """The summary once it has ended, None if it has not in ``timeout`` seconds; raises as ``run`` does."""
        self._home.check()
        if not self._ended.wait(timeout):
            return None
        self._raise_failure()
        return self._summary

    def wait_until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        """Wait until ``condition()`` is true; False if it is not in ``timeout`` seconds, or the consumer is stopped.

        ``condition`` is called about fifty times a second, by the calling thread. If the consumer ends by itself before
        it is true, ConsumerStopped is raised.
        """
        self._home.check()
        if inspect.iscoroutinefunction(condition) or inspect.isgeneratorfunction(condition):
            # What calling it returns is always true.
            raise UsageError("the condition of wait_until must be a plain function: calling this one runs nothing")
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._ended.wait(min(_LOOK_S, left)):
                if condition():
                    break
                self._raise_failure()
                return False
        return True

    def stop(self, drain: float | None = None) -> Summary | None:
        """Start nothing more, let handlers end for at most ``drain`` seconds, commit, leave the group.

        Waits for the end, but not if it is called by a handler or by ``on_commit``, for which the end waits: then it
        asks for the stop and returns None at once. Raises ConsumerStopped if the consumer has ended by itself and
        nothing has raised that before, and UsageError in a handler process, which has no consumer to stop.
        """
        summary = self._stop(drain)
        if not self._is_told:
            self._raise_failure()
        return summary

    def _stop(self, drain: float | None = None) -> Summary | None:
        if drain is not None and (isinstance(drain, bool) or not isinstance(drain, int | float) or drain < 0):
            raise ConfigError("drain", drain, "must be a number of seconds that is not negative")
        self._home.check()
        with self._starting:
            if self._runtime is None:
                if is_handler_process():
                    raise UsageError(_NO_CONSUMER_HERE)
                if self._state is State.NEW:
                    self._state = State.STOPPED
                    self._port.close(0.0)
                    self._ended.set()
                return self._summary
        if not self._ended.is_set():
            self._ask_to_stop(drain)
            if not self._is_waited_for():
                # A start that was interrupted (Ctrl-C) has a runtime and nobody who runs it.
                while not self._ended.wait(_UNOWNED_S) and self._owner is not None:
                    pass
        return self._summary

    def _is_waited_for(self) -> bool:
        """Whether the end waits for the caller: for a handler of this consumer, or the owner inside a callback."""
        runtime = self._runtime
        is_handler = runtime is not None and running_in.get() is runtime.pool
        return is_handler or threading.get_ident() == self._owner

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._home.is_here:
            return
        self._stop()
        failure = self._failure()
        if failure is None or self._is_told:
            return
        self._is_told = True
        if error is None:
            raise failure
        # What the block raised comes first; the log has the whole story of the other.
        error.add_note(f"Before this, the parallel consumer of group {self._group!r} had failed: {failure.reason}")

    def _failure(self) -> ConsumerStopped | None:
        """What tells that it ended by itself, with the cause; None if it has not."""
        runtime, summary = self._runtime, self._summary
        if runtime is None or summary is None or summary.reason is None:
            return None
        failure = ConsumerStopped(summary.reason, summary)
        failure.__cause__ = runtime.cause
        return failure

    def _raise_failure(self) -> None:
        failure = self._failure()
        if failure is not None:
            self._is_told = True
            raise failure

    def _end_with_program(self) -> None:
        """By the interpreter, when the program ends and nobody has stopped it."""
        _log.warning(
            "The program ends while the parallel consumer of group %r runs. It drains for up to %g s, commits and "
            "leaves its group, Ctrl-C ends it at once; call stop() or use it in a with block to see how it ends.",
            self._group,
            self.settings.drain,
        )
        try:
            self._stop()
        except KeyboardInterrupt:
            self._stop(0.0)

    def _begin(self) -> Runtime:
        self._home.check()
        with self._starting:
            if self._state is not State.NEW:
                raise UsageError("a parallel consumer is started once; make another")
            ahead = calls_ahead(self.settings, self._place)
            self._runtime = Runtime(
                self.settings,
                self._port,
                lambda mailbox: self._make_pool(mailbox, ahead),
                topics=self._topics,
                group=self._group,
                ahead=ahead,
                revoke_s=self._revoke_s,
            )
            self._state = State.RUNNING
        return self._runtime

    def _make_pool(self, mailbox: Mailbox, ahead: int) -> Pool:
        concurrency = self.settings.concurrency
        if self._place == "threads":
            from seamark.parallel.pools.threads import ThreadPool

            return ThreadPool(self._handler, self._argument, mailbox, concurrency, ahead)
        if self._place == "loop":
            from seamark.parallel.pools.loop import LoopPool

            return LoopPool(self._handler, self._argument, mailbox, concurrency, ahead)
        from seamark.parallel.pools.processes import ProcessPool

        return ProcessPool(self._handler, self._argument, mailbox, concurrency, self._cannot_go_on)

    def _own(self, runtime: Runtime) -> None:
        self._owner = threading.get_ident()
        at_exit.started(self, ParallelConsumer._end_with_program)
        try:
            with tuned(for_a_loop=self._place == "loop"):
                runtime.run()
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: logged, kept as the reason
            runtime.reason = runtime.reason or f"{type(error).__name__}: {error}"
            runtime.cause = runtime.cause or error
        finally:
            self._state = State.STOPPED if runtime.reason is None else State.FAILED
            self._summary, self._last_status = last_words(runtime, self._state, self._group)
            level = self._summary.log_level
            _log.log(level, "The parallel consumer of group %r: %s", self._group, self._summary, exc_info=runtime.cause)
            at_exit.ended(self)
            self._ended.set()
            # Whoever asked when it was too late is answered all the same.
            while runtime.mailbox.commands:
                runtime.mailbox.commands.popleft()(runtime.clock())

    # -- questions and orders

    def status(self) -> Status:
        """What is going on; may be called from any thread, also before the start and after the end."""
        self._home.check()
        if self._runtime is None:
            return Status(self._state, self._group)
        runtime = self._runtime
        if self._last_status is not None:
            return self._last_status

        def answer(_now: float) -> Status:
            state = State.STOPPING if runtime.engine.is_stopping else self._state
            return self._last_status or status_of(runtime, state, self._group)

        try:
            self._known_status = self._ask(answer)
        except OwnerBusy:
            # Better an older answer than none: who watches a consumer needs to see one that is busy, too.
            if self._known_status is None:
                return Status(self._state, self._group)
        return self._known_status

    def skip(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Give up a record that is running, waits for a retry or is parked; the frontier passes it."""
        runtime = self._running()
        self._order(lambda now: runtime.engine.skip(_read_partition(partition), offset, now))
        _log.warning("%s offset %d was skipped by call: the frontier passes it", _read_partition(partition), offset)

    def dead_letter(self, partition: TopicPartition | tuple[str, int], offset: int, topic: str | None = None) -> None:
        """Write a record that is running, waits for a retry or is parked to the dead-letter topic and pass it."""
        runtime = self._running()
        self._order(lambda now: runtime.engine.dead_letter(_read_partition(partition), offset, now, topic))

    def _running(self) -> Runtime:
        self._home.check()
        if self._runtime is None or self._ended.is_set():
            raise UsageError(f"the parallel consumer is not running, it is {self._state.value}")
        return self._runtime

    def _ask_to_stop(self, drain: float | None = None) -> None:
        runtime = self._runtime
        assert runtime is not None
        runtime.mailbox.tell(lambda now: runtime.engine.stop(now, drain))

    def _cannot_go_on(self, reason: str) -> None:
        runtime = self._runtime
        if runtime is not None:
            runtime.mailbox.tell(lambda now: runtime.engine.stop(now, 0.0, StopReason(reason, None)))

    def _order(self, order: Any) -> None:
        """Have the owner do something that gives actions; what it raises is raised here."""
        runtime = self._running()
        answer: Future[None] = Future()

        def carry_out(now: float) -> list[Action]:
            try:
                actions: list[Action] = order(now)
            except BaseException as error:  # noqa: BLE001 - for the thread that gave the order
                answer.set_exception(error)
                return []
            answer.set_result(None)
            return actions

        runtime.mailbox.tell(carry_out)
        self._answer(answer)

    def _ask(self, question: Any) -> Any:
        answer: Future[Any] = Future()

        def carry_out(now: float) -> list[Action]:
            try:
                answer.set_result(question(now))
            except BaseException as error:  # noqa: BLE001 - for the thread that asked
                answer.set_exception(error)
            return []

        assert self._runtime is not None
        self._runtime.mailbox.tell(carry_out)
        return self._answer(answer)

    def _answer(self, answer: Future[Any]) -> Any:
        try:
            return answer.result(_ANSWER_S)
        except TimeoutError:
            raise OwnerBusy(f"the parallel consumer did not answer within {_ANSWER_S:g} s") from None


def _with_unreadable(retry: Retry) -> Retry:
    """What cannot be deserialized once cannot be deserialized later, unless the user says otherwise."""
    if not isinstance(retry, Retry) or UnreadableRecord in retry.by_type:
        return retry
    return dataclasses.replace(retry, by_type={**retry.by_type, UnreadableRecord: None})


def _read_topics(topics: object) -> list[str]:
    wanted = [topics] if isinstance(topics, str) else topics
    if not isinstance(wanted, Sequence | set | frozenset) or not wanted:
        raise ConfigError("topics", topics, "must be the name of a topic or a list of names")
    for topic in wanted:
        if not isinstance(topic, str) or not topic:
            raise ConfigError("topics", topic, "is not the name of a topic")
    return list(wanted)


def _read_partition(partition: TopicPartition | tuple[str, int]) -> TopicPartition:
    return TopicPartition(*partition)


def _milliseconds(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise ConfigError("max.poll.interval.ms", value, "is not a whole number") from None


def _check_arrow(argument: Argument) -> None:
    if argument.has_deserializers:
        raise ConfigError("batch", "Batch(arrow=True)", "goes with keys and values as bytes: leave out key= and value=")
    from seamark.parallel.core.columns import require_arrow

    require_arrow()

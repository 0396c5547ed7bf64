"""What the blocking and the awaitable parallel consumer share: settings, the owner thread, and questions to it.

The owner runs the ``Runtime``; all other calls are handed to it as commands and answered by it, between two events.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Literal, Self, TypeVar

from seamark.errors import ConfigError, SeamarkError, UsageError, error_text
from seamark.parallel.adapters import check_config, open_port, read_deserializer
from seamark.parallel.core.work import Action, StopReason
from seamark.parallel.observe.status import State, Status, Summary
from seamark.parallel.pools.call import Argument, Handler, UnreadableRecord
from seamark.parallel.pools.pool import Command, Mailbox, Pool, calls_ahead
from seamark.parallel.pools.whereabouts import Home, is_handler_process
from seamark.parallel.run import at_exit
from seamark.parallel.run.process import relaxed_gc
from seamark.parallel.run.report import final_report, status_of
from seamark.parallel.run.runtime import Runtime
from seamark.parallel.settings import Batch, Commit, Delivery, Order, Retry, Settings, Stop, Then
from seamark.readable_log import readable_logger
from seamark.suggest import did_you_mean
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")

T = TypeVar("T")
Place = Literal["threads", "loop", "processes"]

# How long a question to the owner may wait: it answers between two events, and a commit is the longest of them.
ANSWER_S = 15.0
# How often a condition that somebody waits for is looked at.
LOOK_S = 0.02
_NO_CONSUMER_HERE = (
    "stop() was called in a handler process, where this consumer does not run: to stop it from there, raise an "
    "error that is not retried, with then=Stop()"
)
WAITS_FOR_ITSELF = (
    "wait() was called by a handler or by on_commit, and the consumer does not end before they return; return, or call "
    "stop() to end it"
)
WAITS_FOR_OWNER = (
    "wait_until() was called by on_commit, and the consumer does nothing before on_commit returns; look at the "
    "condition there, or wait in another thread"
)
_IN_THE_MIDDLE = (
    "skip() and dead_letter() were called in the middle of the consumer's own work, by a handler of a signal or of log "
    "lines in its thread; call them from another thread"
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

    def __init__(self) -> None:
        super().__init__(f"the parallel consumer did not respond within {ANSWER_S:g} s")


class ConsumerHandle(ABC):
    """Settings that cannot be are a ConfigError when it is made."""

    # What ``help`` and editors show: not the arguments of ``__new__``.
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _self, *options = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(options)

    def __new__(cls, *_positional: Any, **options: Any) -> Self:
        if cls.__init__ is ConsumerHandle.__init__:
            # Python would name this class, which nobody has written, and suggest nothing.
            known = cls.__signature__.parameters
            for name in options:
                if name not in known:
                    meant = did_you_mean(name, known)
                    raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}{meant}")
        return super().__new__(cls)

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
        self._place = self._where_to_run(handler, run_in)
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
        self._home = Home(type(self).__name__)
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

    @abstractmethod
    def _where_to_run(self, handler: Handler, run_in: str) -> Place:
        """ConfigError for a handler or a ``run_in`` that cannot be."""

    @abstractmethod
    def _make_pool(self, mailbox: Mailbox, ahead: int) -> Pool: ...

    @abstractmethod
    def _end_with_program(self) -> None:
        """By the interpreter, when the program ends and nobody has stopped it."""

    # -- the owner

    def _begin(self) -> Runtime:
        self._home.check()
        with self._starting:
            if self._state is not State.NEW:
                was_stopped = ", and this one was stopped before it was started" if self._runtime is None else ""
                raise UsageError(f"a parallel consumer can only be started once{was_stopped}: create a new one")
            ahead = calls_ahead(self.settings, self._place)
            self._runtime = Runtime(
                self._runtime_settings(),
                self._port,
                lambda mailbox: self._make_pool(mailbox, ahead),
                topics=self._topics,
                group=self._group,
                ahead=ahead,
                revoke_s=self._revoke_s,
            )
            self._state = State.RUNNING
        return self._runtime

    def _runtime_settings(self) -> Settings:
        return self.settings

    def _own(self, runtime: Runtime) -> None:
        self._owner = threading.get_ident()
        at_exit.started(self, type(self)._end_with_program)
        try:
            with relaxed_gc(for_a_loop=self._place == "loop"):
                runtime.run()
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: logged, kept as the reason
            runtime.reason = runtime.reason or error_text(error)
            runtime.cause = runtime.cause or error
        finally:
            self._state = State.STOPPED if runtime.reason is None else State.FAILED
            self._summary, self._last_status = final_report(runtime, self._state, self._group)
            level = self._summary.log_level
            _log.log(level, "The parallel consumer of group %r: %s", self._group, self._summary, exc_info=runtime.cause)
            at_exit.ended(self)
            self._ended.set()
            # Whoever asked when it was too late is answered all the same.
            while runtime.mailbox.commands:
                runtime.mailbox.commands.popleft()(runtime.clock())

    # -- the end

    def _has_begun(self) -> bool:
        """For ``stop``: False if there is nothing to stop, as it was never started, and never will be now."""
        self._home.check()
        with self._starting:
            if self._runtime is not None:
                return True
            if is_handler_process():
                raise UsageError(_NO_CONSUMER_HERE)
            if self._state is State.NEW:
                self._state = State.STOPPED
                self._port.close(0.0)
                self._ended.set()
            return False

    def _ask_to_stop(self, drain: float | None = None) -> None:
        runtime = self._runtime
        assert runtime is not None
        runtime.mailbox.tell(lambda now: runtime.engine.stop(now, drain))

    def _cannot_go_on(self, reason: str) -> None:
        runtime = self._runtime
        if runtime is not None:
            runtime.mailbox.tell(lambda now: runtime.engine.stop(now, 0.0, StopReason(reason, None)))

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

    def _raise_at_end_of_block(self, error: BaseException | None) -> None:
        """Raise the failure if nobody was told, or note it at what the block raised; the log has the whole story."""
        failure = self._failure()
        if failure is None or self._is_told:
            return
        self._is_told = True
        if error is None:
            raise failure
        error.add_note(f"Before this, the parallel consumer of group {self._group!r} had failed: {failure.reason}")

    # -- questions and orders

    def blocking_status(self) -> Status:
        """What is going on; from any thread, which waits for the owner. ``HealthServer`` and ``Progress`` ask so."""
        try:
            return answer_of(self._ask_status())
        except OwnerBusy:
            return self._older_status()

    def _ask_status(self) -> Future[Status]:
        """The owner's answer, or the one that is known before the start and after the end."""
        self._home.check()
        runtime = self._runtime
        if runtime is None or self._last_status is not None:
            known: Future[Status] = Future()
            known.set_result(self._last_status or Status(self._state, self._group))
            return known

        if self._is_owner() and not runtime.is_calling_back:
            known = Future()
            known.set_result(self._older_status())
            return known

        def answer(_now: float) -> Status:
            state = State.STOPPING if runtime.engine.is_stopping else self._state
            self._known_status = self._last_status or status_of(runtime, state, self._group)
            return self._known_status

        return self._ask(runtime, answer)

    def _older_status(self) -> Status:
        """Better than none where the owner is busy: who watches a consumer needs to see one that is busy, too."""
        return self._known_status or Status(self._state, self._group)

    def _ask_to_skip(self, partition: TopicPartition, offset: int) -> Future[None]:
        runtime = self._running()

        def skip(now: float) -> list[Action]:
            actions = runtime.engine.skip(partition, offset, now)
            _log.warning("%s offset %d was skipped by a call of skip()", partition, offset)
            return actions

        return self._order(runtime, skip)

    def _ask_to_dead_letter(self, partition: TopicPartition, offset: int, topic: str | None) -> Future[None]:
        runtime = self._running()
        return self._order(runtime, lambda now: runtime.engine.dead_letter(partition, offset, now, topic))

    def _running(self) -> Runtime:
        self._home.check()
        if self._runtime is None or self._ended.is_set():
            was_started = self._state is not State.NEW
            state = f"is not running, it is {self._state.value}" if was_started else "has not been started"
            raise UsageError(f"the parallel consumer {state}")
        return self._runtime

    def _is_owner(self) -> bool:
        """Whether the owner's own thread asks: in a callback, or in a handler of signals or of log lines."""
        return threading.get_ident() == self._owner and not self._ended.is_set()

    def _tell(self, runtime: Runtime, command: Command) -> None:
        """Have the owner do this, at once if it is the owner that asks."""
        if not self._is_owner():
            runtime.mailbox.tell(command)
        elif runtime.is_calling_back:
            runtime.do_in_callback(command)
        else:
            raise UsageError(_IN_THE_MIDDLE)

    def _order(self, runtime: Runtime, order: Callable[[float], list[Action]]) -> Future[None]:
        """Have the owner do something that gives actions; what it raises is for who gave the order."""
        answer: Future[None] = Future()

        def carry_out(now: float) -> list[Action]:
            try:
                actions = order(now)
            except BaseException as error:  # noqa: BLE001 - for the thread that gave the order
                answer.set_exception(error)
                return []
            answer.set_result(None)
            return actions

        self._tell(runtime, carry_out)
        return answer

    def _ask(self, runtime: Runtime, question: Callable[[float], T]) -> Future[T]:
        answer: Future[T] = Future()

        def carry_out(now: float) -> list[Action]:
            try:
                answer.set_result(question(now))
            except BaseException as error:  # noqa: BLE001 - for the thread that asked
                answer.set_exception(error)
            return []

        self._tell(runtime, carry_out)
        return answer


def answer_of(answer: Future[T]) -> T:
    """Wait for the owner; OwnerBusy if it does not answer."""
    try:
        return answer.result(ANSWER_S)
    except TimeoutError:
        raise OwnerBusy from None


def check_drain(drain: object) -> None:
    if drain is not None and (isinstance(drain, bool) or not isinstance(drain, int | float) or drain < 0):
        raise ConfigError("drain", drain, "must be a number of seconds >= 0")


def check_condition(condition: Callable[[], object]) -> None:
    if inspect.iscoroutinefunction(condition) or inspect.isgeneratorfunction(condition):
        # What calling it returns is always true.
        raise UsageError("the condition of wait_until must be a plain function, not a coroutine or generator function")


def read_partition(partition: TopicPartition | tuple[str, int]) -> TopicPartition:
    return TopicPartition(*partition)


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
            raise ConfigError("topics", topic, "is not a valid topic name")
    return list(wanted)


def _milliseconds(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise ConfigError("max.poll.interval.ms", value, "must be an integer") from None


def _check_arrow(argument: Argument) -> None:
    if argument.has_deserializers:
        raise ConfigError("batch", "Batch(arrow=True)", "requires keys and values as bytes: omit key= and value=")
    from seamark.parallel.core.columns import require_arrow

    require_arrow()

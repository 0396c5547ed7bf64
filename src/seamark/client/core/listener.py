"""Rebalance listeners: user code that hears what its consumer gets and gives up, on the thread that polls.

Each of the three functions is given a sorted list of partitions and may be absent; a listener without ``on_lost`` hears
of lost partitions through ``on_revoked`` (I26). A function of an ``AsyncConsumer`` may be a coroutine function.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from seamark.client.callback_kinds import refuse_coroutine, refuse_generator
from seamark.client.core.effects import CallListener, ListenerCall
from seamark.client.errors import ClientError, WakeUp
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition

ListenerFunction = Callable[[list[TopicPartition]], Any]


class ListenerFailed(ClientError):
    """A rebalance listener raised; the cause is chained and the consumer can go on polling."""

    def __init__(self, method: str, cause: BaseException) -> None:
        super().__init__(f"the rebalance listener's {method} raised {type(cause).__name__}: {cause}")
        self.method = method
        self.__cause__ = cause


class Listener(NamedTuple):
    on_assigned: ListenerFunction | None = None
    on_revoked: ListenerFunction | None = None
    on_lost: ListenerFunction | None = None

    @classmethod
    def checked(cls, on_assigned: object, on_revoked: object, on_lost: object, *, may_await: bool = False) -> Listener:
        for name, function in (("on_assigned", on_assigned), ("on_revoked", on_revoked), ("on_lost", on_lost)):
            if function is not None and not callable(function):
                raise UsageError(f"{name} must be a function of a list of partitions, got {function!r}")
            if not may_await:
                refuse_coroutine(name, function, "only AsyncConsumer can await it")
            refuse_generator(name, function)
        return cls(on_assigned, on_revoked, on_lost)  # type: ignore[arg-type]

    def function_for(self, call: ListenerCall) -> ListenerFunction | None:
        if call is ListenerCall.ASSIGNED:
            return self.on_assigned
        if call is ListenerCall.LOST and self.on_lost is not None:
            return self.on_lost
        return self.on_revoked

    def run(self, call: CallListener) -> Awaitable[object] | None:
        """Call the function; its answer is something to await if it was a coroutine function."""
        function = self.function_for(call.call)
        if function is None:
            return None
        answer = function(list(call.partitions))
        return answer if inspect.isawaitable(answer) else None


NO_LISTENER = Listener()


def listener_error(call: CallListener, error: BaseException) -> BaseException:
    """What poll raises for an exception of user code; an interruption stays what it is."""
    if isinstance(error, WakeUp) or not isinstance(error, Exception):
        return error
    return ListenerFailed(call.call.value, error)

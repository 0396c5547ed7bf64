"""Faults on demand: what a test makes the broker do wrong, per API and node.

``intercept`` is asked before a handler runs, while any fault is there (``is_active``); True means that the request is
taken care of. The rules that fit are used in the order they were made: a delay lets the rest go on later, a failure
or a lost connection ends it. ``drop(when="after")`` lets the request take effect and loses the answer: the client
cannot know which of the two happened.

The calls of tests come from any thread and are carried out on the event loop's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from seamark.broker.faults.groups import FaultyBroker, GroupFaults
from seamark.broker.net.context import RequestContext, ServingNode
from seamark.broker.net.dispatch import answer_refused, run
from seamark.errors import ConfigError
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.schema.schema import Message

# How many times a rule is used that has no number.
ALWAYS = None


class Fault:
    """One rule; ``hits`` counts how often it was used, ``remove`` ends it."""

    def __init__(self, faults: Faults, api: str, node: int | None, times: int | None) -> None:
        self._faults = faults
        self.api = api
        self.node = node
        self.times_left = times
        self.hits = 0
        self.error: ErrorCode | None = None
        self.seconds = 0.0
        self.drop_when = ""

    def remove(self) -> None:
        self._faults.call(lambda: self._faults.forget(self))

    def fits(self, node: ServingNode, context: RequestContext) -> bool:
        return context.endpoint.api.name == self.api and self.node in (None, node.id)

    def use(self) -> None:
        self.hits += 1
        if self.times_left is not None:
            self.times_left -= 1
            if self.times_left <= 0:
                self._faults.forget(self)


class Faults(GroupFaults):
    """``broker.faults``; node numbers are those of ``broker.nodes``."""

    def __init__(self, broker: FaultyBroker, call: Callable[[Callable[[], Any]], Any]) -> None:
        self.broker = broker
        # Runs a function on the event loop's thread and returns its result.
        self.call = call
        # Read by dispatch for every request.
        self.is_active = False
        self._rules: list[Fault] = []
        self.loading_holds = []

    def fail(self, api: str, error: str | ErrorCode, times: int | None = 1, node: int | None = None) -> Fault:
        """Answer the next ``times`` requests of this API with the error, without handling them; None means all."""
        rule = self._rule(api, node, times)
        try:
            rule.error = ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
        except (KeyError, ValueError):
            raise ConfigError("error", error, "it must be the name of a Kafka error code") from None
        return self._add(rule)

    def delay(self, api: str, seconds: float, times: int | None = ALWAYS, node: int | None = None) -> Fault:
        """Handle requests of this API that much later."""
        if not seconds >= 0:
            raise ConfigError("seconds", seconds, "it must not be negative")
        rule = self._rule(api, node, times)
        rule.seconds = seconds
        return self._add(rule)

    def drop(self, api: str, when: str = "before", times: int | None = 1, node: int | None = None) -> Fault:
        """Close the connection in place of an answer, before the request takes effect or after it."""
        if when not in ("before", "after"):
            raise ConfigError("when", when, "it must be before or after")
        rule = self._rule(api, node, times)
        rule.drop_when = when
        return self._add(rule)

    def fill_disk(self) -> None:
        """Make every write fail as on a full disk, until ``free_disk``."""
        self.call(lambda: setattr(self.broker.cluster.storage, "is_full", True))

    def free_disk(self) -> None:
        self.call(lambda: setattr(self.broker.cluster.storage, "is_full", False))

    def recreate_topic(self, name: str) -> None:
        """Delete a topic and make it anew under another id, with the same partitions and configuration."""
        self.call(lambda: self.broker.cluster.recreate_topic(name))

    def clear(self) -> None:
        """End all faults of requests, the full disk, the slowness of nodes, and held loads."""
        for hold in list(self.loading_holds):
            hold.release()

        def clear_all() -> None:
            self._rules.clear()
            self.broker.cluster.storage.is_full = False
            for node in self.broker.nodes:
                node.delay_seconds = 0.0
            self.refresh()

        self.call(clear_all)

    # -- on the event loop's thread

    def refresh(self) -> None:
        """Find out anew whether requests need to be looked at."""
        self.is_active = bool(self._rules) or any(node.delay_seconds for node in self.broker.nodes)

    def forget(self, rule: Fault) -> None:
        if rule in self._rules:
            self._rules.remove(rule)
        self.refresh()

    def intercept(self, node: ServingNode, request: Message, context: RequestContext) -> bool:
        """Do to the request what the faults say; True if it must not be handled now."""
        seconds = node.delay_seconds
        for rule in [rule for rule in self._rules if rule.fits(node, context)]:
            rule.use()
            seconds += rule.seconds
            if rule.error is not None:
                self._later(node, seconds, context, partial(answer_refused, request, context, rule.error))
                return True
            if rule.drop_when == "before":
                self._later(node, seconds, context, partial(context.hang_up, "lost its request to an injected fault"))
                return True
            if rule.drop_when == "after":
                context.is_answer_dropped = True
        if seconds:
            self._later(node, seconds, context, partial(run, node, request, context))
            return True
        return False

    def _later(self, node: ServingNode, seconds: float, context: RequestContext, action: Callable[[], None]) -> None:
        if seconds <= 0:
            action()
            return

        def act() -> None:
            if context.connection.is_open:
                action()

        node.timers.call_after(seconds, act)

    def _rule(self, api: str, node: int | None, times: int | None) -> Fault:
        try:
            api_named(api)
        except KeyError:
            raise ConfigError("api", api, "it must be the name of a Kafka API, such as OffsetCommit") from None
        if times is not None and times < 1:
            raise ConfigError("times", times, "it must be at least 1, or None for no limit")
        if node is not None and not 0 <= node < len(self.broker.nodes):
            raise ConfigError("node", node, f"the broker has nodes 0 to {len(self.broker.nodes) - 1}")
        return Fault(self, api, node, times)

    def _add(self, rule: Fault) -> Fault:
        def add() -> None:
            self._rules.append(rule)
            self.refresh()

        self.call(add)
        return rule

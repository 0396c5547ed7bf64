"""``partition.assignment.strategy``: from what the user wrote to assignors, and the protocol they agree on.

An entry is a built-in by its protocol name or Kafka's class name, a class or its dotted name, or an instance. Order is
preference: the coordinator picks, among the names that all members list, the one that most members prefer.

Invariant: what comes out is not empty, its names differ, and at least one rebalance protocol is supported by all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module

from seamark.assignors.contract import Assignor, RebalanceProtocol
from seamark.assignors.cooperative_sticky import CooperativeStickyAssignor
from seamark.assignors.range import RangeAssignor
from seamark.assignors.round_robin import RoundRobinAssignor
from seamark.assignors.sticky import StickyAssignor
from seamark.errors import ConfigError

OPTION = "partition.assignment.strategy"
BUILT_IN: tuple[type[Assignor], ...] = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
# Range is used while everyone lists both; one rolling restart without it moves a group to cooperative rebalancing.
DEFAULT_STRATEGY = ("range", "cooperative-sticky")

_KAFKA_PACKAGE = "org.apache.kafka.clients.consumer."
_BUILT_IN_BY_NAME = {
    name: kind for kind in BUILT_IN for name in (kind.name, kind.__name__, _KAFKA_PACKAGE + kind.__name__)
}

StrategyEntry = str | type[Assignor] | Assignor


def load_assignors(strategy: str | StrategyEntry | Iterable[StrategyEntry] = DEFAULT_STRATEGY) -> tuple[Assignor, ...]:
    """New assignors for the entries of ``strategy``, a list or a text with commas, in order of preference."""
    if isinstance(strategy, str):
        entries: list[StrategyEntry] = [name.strip() for name in strategy.split(",") if name.strip()]
    elif isinstance(strategy, type | Assignor):
        entries = [strategy]
    else:
        entries = list(strategy)
    if not entries:
        raise ConfigError(OPTION, strategy, "a consumer that subscribes needs at least one assignor")
    assignors = tuple(_load(entry) for entry in entries)
    names = [assignor.name for assignor in assignors]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(OPTION, strategy, f"the assignor name {name!r} is used twice")
    common_protocol(assignors)
    return assignors


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The highest rebalance protocol that every one of ``assignors`` supports."""
    common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ConfigError(OPTION, names, "these assignors have no rebalance protocol in common")
    return max(common)


def _load(entry: StrategyEntry) -> Assignor:
    kind = _class_named(entry) if isinstance(entry, str) else entry
    if isinstance(kind, type) and issubclass(kind, Assignor):
        try:
            kind = kind()
        except TypeError as error:
            raise ConfigError(OPTION, entry, f"the assignor cannot be made without arguments: {error}") from error
    if not isinstance(kind, Assignor):
        raise ConfigError(OPTION, entry, "not a subclass or an instance of seamark.assignors.Assignor")
    if not isinstance(getattr(kind, "name", None), str) or not kind.name:
        raise ConfigError(OPTION, entry, "the assignor has no name for members to vote on")
    return kind


def _class_named(name: str) -> object:
    if name in _BUILT_IN_BY_NAME:
        return _BUILT_IN_BY_NAME[name]
    module_name, _, class_name = name.replace(":", ".").rpartition(".")
    if not module_name:
        known = ", ".join(kind.name for kind in BUILT_IN)
        raise ConfigError(OPTION, name, f"not one of {known}, nor the dotted name of a class")
    try:
        return getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(OPTION, name, f"there is no such class: {error}") from error

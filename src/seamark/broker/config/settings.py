"""The broker's settings as they are now: what it was started with, and what requests changed since.

A value comes from the first of: a change made while it runs (for a node, then for all), what was given at the start,
Kafka's default. An unknown key is refused: in a test it is a typo, and a typo that does nothing costs an afternoon.
``watch`` tells those who keep a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from seamark.broker.config.key import ConfigKey
from seamark.broker.config.table import SERVED, WITHOUT_EFFECT
from seamark.broker.security.settings import SETTING_KEYS
from seamark.broker.sharing.file_limits import connection_descriptors, default_max_connections, open_file_limit
from seamark.coordinator.settings import Settings as CoordinatorSettings
from seamark.coordinator.settings import setting_keys
from seamark.errors import HIDDEN, ConfigError
from seamark.readable_log import readable_logger
from seamark.suggest import closest

_log = readable_logger("seamark.broker")

MAX_CONNECTIONS = "max.connections"


class BrokerSettings:
    """Read values with ``settings["num.partitions"]``; hot paths keep what they need.

    >>> settings = BrokerSettings({"num.partitions": "3"})
    >>> settings["num.partitions"], settings["message.max.bytes"]
    (3, 1048588)
    """

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        # As given, for the parts that read keys of their own.
        self.given: dict[str, object] = dict(given or {})
        # As parsed, by key.
        self.static: dict[str, Any] = {}
        # What was changed since the start: for a node, and for all nodes.
        self.dynamic: dict[str, Any] = {}
        self.dynamic_default: dict[str, Any] = {}
        self._watchers: list[Callable[[], None]] = []
        for name, value in self.given.items():
            if name in WITHOUT_EFFECT or name in SETTING_KEYS:
                continue
            self.static[name] = self.key(name).parse(value)
        coordinator_keys = {name: self.static[name] for name in setting_keys() if name in self.static}
        self.coordinator = CoordinatorSettings.from_keys(coordinator_keys)
        # A new cluster of Kafka 4.3 has this one among what was changed for all nodes, with the value it was made with.
        self.dynamic_default["min.insync.replicas"] = self["min.insync.replicas"]
        self.socket_request_max_bytes: int = self["socket.request.max.bytes"]
        self._warn_of_too_many_connections()

    def _warn_of_too_many_connections(self) -> None:
        wanted = self.static.get(MAX_CONNECTIONS, 0)
        if wanted > connection_descriptors():
            _log.warning(
                "%s=%d is more than this process allows: it may open %d files (ulimit -n), %d of them for connections",
                MAX_CONNECTIONS,
                wanted,
                open_file_limit(),
                connection_descriptors(),
            )

    @staticmethod
    def key(name: str) -> ConfigKey:
        """Return what is known of a key; ConfigError for one that Kafka's broker does not have."""
        known = SERVED.get(name)
        if known is None:
            meant = closest(name, SERVED, 0.8)
            hint = f"; did you mean {meant}?" if meant else ""
            raise ConfigError(name, HIDDEN, f"there is no such broker setting{hint}")
        return known

    def __getitem__(self, name: str) -> Any:
        for layer in (self.dynamic, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return self.default(name)

    def default(self, name: str) -> Any:
        value = SERVED[name].default
        if value is None and name in _COORDINATOR_DEFAULTS:
            return _COORDINATOR_DEFAULTS[name]
        if name == MAX_CONNECTIONS:
            return default_max_connections()
        return value

    def is_given(self, name: str) -> bool:
        return name in self.static

    def change(self, changes: Mapping[str, Any], *, is_default: bool = False) -> None:
        """Set values while the broker runs, or with None take them back.

        All nodes share one configuration: a change for one of them counts for all, and before the default for all.
        """
        layer = self.dynamic_default if is_default else self.dynamic
        for name, value in changes.items():
            if value is None:
                layer.pop(name, None)
            else:
                layer[name] = value
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` after every change."""
        self._watchers.append(watcher)


def _coordinator_defaults() -> dict[str, int]:
    untouched = CoordinatorSettings()
    return {
        setting.metadata["key"]: getattr(untouched, setting.name)
        for setting in fields(untouched)
        if "key" in setting.metadata
    }


_COORDINATOR_DEFAULTS = _coordinator_defaults()

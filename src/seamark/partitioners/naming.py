"""``partitioner.class``: from what the user wrote to a partitioner.

A value is a built-in by name or by Kafka's class name, a class or its dotted name, or an instance; nothing means the
producer's built-in logic.
"""

from __future__ import annotations

from importlib import import_module

from seamark.errors import ConfigError
from seamark.partitioners.contract import Partitioner
from seamark.partitioners.default import DefaultPartitioner
from seamark.partitioners.round_robin import RoundRobinPartitioner
from seamark.partitioners.sticky import UniformStickyPartitioner

OPTION = "partitioner.class"
_BY_NAME: dict[str, type[Partitioner]] = {
    "default": DefaultPartitioner,
    "round_robin": RoundRobinPartitioner,
    "uniform_sticky": UniformStickyPartitioner,
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": DefaultPartitioner,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": UniformStickyPartitioner,
}


def load_partitioner(value: object) -> Partitioner | None:
    """A new partitioner for ``value``, or None for the built-in logic."""
    if value is None or value == "":
        return None
    partitioner = _named(value) if isinstance(value, str) else value
    if isinstance(partitioner, type) and issubclass(partitioner, Partitioner):
        try:
            partitioner = partitioner()
        except TypeError as error:
            raise ConfigError(OPTION, value, f"the partitioner cannot be made without arguments: {error}") from error
    if not isinstance(partitioner, Partitioner):
        raise ConfigError(OPTION, value, "not a subclass or an instance of seamark.partitioners.Partitioner")
    return partitioner


def _named(name: str) -> object:
    if name in _BY_NAME:
        return _BY_NAME[name]
    module_name, _, class_name = name.replace(":", ".").rpartition(".")
    if not module_name:
        known = ", ".join(word for word in _BY_NAME if "." not in word)
        raise ConfigError(OPTION, name, f"not one of {known}, nor the dotted name of a class")
    try:
        return getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(OPTION, name, f"there is no such class: {error}") from error

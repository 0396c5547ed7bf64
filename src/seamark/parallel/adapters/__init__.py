"""The port's implementations: our own client, and confluent-kafka.

``open_port`` picks one by name. They are loaded when asked for, so that a parallel consumer costs only the client that
it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seamark.errors import ConfigError
from seamark.parallel.core.ports import KafkaPort

Deserializer = Callable[[bytes], Any]
CLIENTS = ("seamark", "confluent")


def open_port(client: str, config: Mapping[str, Any], fetch_bytes: int = 16 << 20) -> KafkaPort:
    """A port for the group that ``config``, Kafka's own keys, names. Nothing is connected before ``subscribe``.

    ``fetch_bytes`` bounds what the client fetches ahead of what is polled, unless ``config`` says otherwise.
    """
    check_config(client, config)
    if client == "confluent":
        from seamark.parallel.adapters.confluent import ConfluentPort

        return ConfluentPort(config, fetch_bytes)
    from seamark.parallel.adapters.seamark_client import SeamarkPort

    return SeamarkPort(config, fetch_bytes)


def check_config(client: str, config: object) -> None:
    """What holds for every client: a group, and offsets that nobody else commits."""
    if client not in CLIENTS:
        raise ConfigError("client", client, f"must be one of {', '.join(CLIENTS)}")
    if not isinstance(config, Mapping):
        raise ConfigError("config", type(config).__name__, "must be a mapping of Kafka configuration keys")
    group = config.get("group.id")
    if not isinstance(group, str) or not group:
        raise ConfigError("group.id", group, "is required: a parallel consumer commits to a group")
    if str(config.get("enable.auto.commit", "false")).lower() != "false":
        reason = "must be false or omitted: automatic commits would pass unfinished records"
        raise ConfigError("enable.auto.commit", config["enable.auto.commit"], reason)


def read_deserializer(part: str, wanted: object) -> Deserializer | None:
    """The function for what the user wrote, or None for bytes as they are."""
    from seamark.client.serde.deserializers import load_deserializer

    return load_deserializer(part, wanted)

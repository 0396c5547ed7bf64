"""The client: consumer, producer and admin that speak Kafka's protocol over one I/O thread per process.

Names are loaded when they are first asked for, so that importing a part costs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.client.admin import Admin
    from seamark.client.async_admin import AsyncAdmin
    from seamark.client.async_consumer import AsyncConsumer
    from seamark.client.async_producer import AsyncProducer
    from seamark.client.avro import Avro
    from seamark.client.consumer import Consumer
    from seamark.client.delivery import Delivered
    from seamark.client.errors import DeliveryFailed
    from seamark.client.fetch_columns import ColumnReader
    from seamark.client.producer import Producer
    from seamark.client.records_api import Offset, Record
    from seamark.client.schema_registry import SchemaRegistry
    from seamark.topic_partition import TopicPartition

_HOMES = {
    "Admin": "seamark.client.admin",
    "AsyncAdmin": "seamark.client.async_admin",
    "AsyncConsumer": "seamark.client.async_consumer",
    "AsyncProducer": "seamark.client.async_producer",
    "Avro": "seamark.client.avro",
    "ColumnReader": "seamark.client.fetch_columns",
    "Consumer": "seamark.client.consumer",
    "Delivered": "seamark.client.delivery",
    "DeliveryFailed": "seamark.client.errors",
    "Offset": "seamark.client.records_api",
    "Producer": "seamark.client.producer",
    "Record": "seamark.client.records_api",
    "SchemaRegistry": "seamark.client.schema_registry",
    "TopicPartition": "seamark.topic_partition",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Avro",
    "ColumnReader",
    "Consumer",
    "Delivered",
    "DeliveryFailed",
    "Offset",
    "Producer",
    "Record",
    "SchemaRegistry",
    "TopicPartition",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)

"""The client: consumer, producer and admin that speak Kafka's protocol over one I/O thread per process.

Names are loaded when they are first asked for, so that importing a part costs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.client.admin.admin import Admin
    from seamark.client.admin.async_admin import AsyncAdmin
    from seamark.client.consumer.async_consumer import AsyncConsumer
    from seamark.client.consumer.consumer import Consumer
    from seamark.client.consumer.owner import OwnedConsumer
    from seamark.client.errors import DeliveryFailed
    from seamark.client.fetch.ranges import ColumnReader
    from seamark.client.producer.async_producer import AsyncProducer
    from seamark.client.producer.delivery import Delivered
    from seamark.client.producer.producer import Producer
    from seamark.client.records import Offset, Record
    from seamark.client.serde.avro import Avro
    from seamark.client.serde.schema_registry import SchemaRegistry
    from seamark.topic_partition import TopicPartition

_HOMES = {
    "Admin": "seamark.client.admin.admin",
    "AsyncAdmin": "seamark.client.admin.async_admin",
    "AsyncConsumer": "seamark.client.consumer.async_consumer",
    "AsyncProducer": "seamark.client.producer.async_producer",
    "Avro": "seamark.client.serde.avro",
    "ColumnReader": "seamark.client.fetch.ranges",
    "Consumer": "seamark.client.consumer.consumer",
    "Delivered": "seamark.client.producer.delivery",
    "DeliveryFailed": "seamark.client.errors",
    "Offset": "seamark.client.records",
    "OwnedConsumer": "seamark.client.consumer.owner",
    "Producer": "seamark.client.producer.producer",
    "Record": "seamark.client.records",
    "SchemaRegistry": "seamark.client.serde.schema_registry",
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
    "OwnedConsumer",
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

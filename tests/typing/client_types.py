"""What mypy and pyright make of the client. Never run; a line that must be refused is one whose ignore is needed."""

from __future__ import annotations

import json
import re
from typing import Any, assert_type

from seamark import Consumer as RootConsumer
from seamark.client import (
    AsyncConsumer,
    AsyncProducer,
    Avro,
    Consumer,
    Delivery,
    DeliveryRun,
    Offset,
    OffsetAndTime,
    Producer,
    Record,
    TopicPartition,
)

CONFIG = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


class Order:
    def __init__(self, content: bytes) -> None:
        self.content = content


def read_order(content: bytes) -> Order:
    return Order(content)


def write_order(order: Order) -> bytes:
    return order.content


def write_text(text: str) -> bytes:
    return text.encode()


def what_a_consumer_gives() -> None:
    assert_type(Consumer(CONFIG), Consumer[bytes | None, bytes | None])
    assert_type(Consumer(bootstrap_servers="localhost:9092"), Consumer[bytes | None, bytes | None])
    assert_type(Consumer("orders", value=str), Consumer[bytes | None, str | None])
    assert_type(Consumer("orders", key=str, value=int), Consumer[str | None, int | None])
    assert_type(Consumer("orders", value=float), Consumer[bytes | None, float | None])
    assert_type(Consumer("orders", value=read_order), Consumer[bytes | None, Order | None])
    assert_type(Consumer("orders", value=Order), Consumer[bytes | None, Order | None])
    assert_type(Consumer("orders", value=lambda content: content.decode()), Consumer[bytes | None, str | None])
    assert_type(Consumer("orders", value=json.loads), Consumer[bytes | None, Any | None])
    assert_type(Consumer("orders", value=Avro("http://localhost:8081")), Consumer[bytes | None, Any | None])
    # JSON has a null of its own, so that None says nothing about it.
    assert_type(Consumer("orders", value="json"), Consumer[bytes | None, Any])
    assert_type(Consumer("orders", key=str, value="json"), Consumer[str | None, Any])
    assert_type(Consumer("orders", key="str", value=read_order), Consumer[Any, Order | None])
    assert_type(RootConsumer("orders", value=str), Consumer[bytes | None, str | None])


def what_it_gives_by_the_long_names() -> None:
    assert_type(Consumer("orders", value_deserializer=str), Consumer[bytes | None, str | None])
    assert_type(
        Consumer("orders", key_deserializer=bytes.decode, value_deserializer=read_order),
        Consumer[str | None, Order | None],
    )
    assert_type(
        Consumer("orders", value_deserializer=lambda content: json.loads(content)), Consumer[bytes | None, Any | None]
    )


def what_records_hold(consumer: Consumer[bytes | None, str | None]) -> None:
    for record in consumer:
        assert_type(record, Record[bytes | None, str | None])
        assert_type(record.value, str | None)
        assert_type(record.key, bytes | None)
        record.value.upper()  # type: ignore[union-attr]
        if record.value is not None:
            assert_type(record.value.upper(), str)
        assert_type(record.topic_partition, TopicPartition)
    assert_type(consumer.poll(), list[Record[bytes | None, str | None]])
    assert_type(consumer.committed([TopicPartition("orders", 0)]), dict[TopicPartition, Offset | None])
    assert_type(consumer.offsets_for_times({}), dict[TopicPartition, OffsetAndTime | None])


async def what_an_awaitable_consumer_gives() -> None:
    async with AsyncConsumer(CONFIG, "orders", key=int, value=read_order) as consumer:
        assert_type(consumer, AsyncConsumer[int | None, Order | None])
        assert_type(await consumer.poll(), list[Record[int | None, Order | None]])
        async for record in consumer:
            assert_type(record.value, Order | None)
    assert_type(AsyncConsumer("orders", value_deserializer=str), AsyncConsumer[bytes | None, str | None])


def what_can_be_subscribed_to(consumer: Consumer) -> None:
    consumer.subscribe("orders")
    consumer.subscribe(["orders", "payments"])
    consumer.subscribe({"orders", "payments"}, on_assigned=lambda partitions: print(partitions[0].topic))
    consumer.subscribe(re.compile("orders-.*"))
    Consumer("orders", "payments", group_id="billing")
    Consumer(["orders", "payments"], group_id="billing")
    Consumer(re.compile("orders-.*"), group_id="billing")
    Consumer(CONFIG, "orders")
    consumer.subscribe(42)  # type: ignore[arg-type]
    consumer.subscribe(re.compile(b"orders-.*"))  # type: ignore[arg-type]
    consumer.subscribe([1, 2])  # type: ignore[list-item]


def what_no_consumer_can_be_made_of() -> None:
    Consumer("orders", value=42)  # type: ignore[call-overload]
    Consumer("orders", value=write_order)  # type: ignore[arg-type]


def who_takes_whose_records() -> None:
    def anything(record: Record) -> Any:
        return record.value["id"]

    def text(record: Record[bytes | None, str | None]) -> None: ...

    def objects(consumer: Consumer[object, object]) -> None: ...

    record = Record("orders", 0, 7, value="text")
    anything(record)
    text(record)
    text(Record("orders", 0, 7, value=b"text"))  # type: ignore[arg-type]
    objects(Consumer("orders", value=str))


def what_a_producer_takes() -> None:
    plain = Producer(CONFIG)
    assert_type(plain.send("orders", b"value", key=bytearray(b"key")), Delivery)
    plain.send("orders", None)
    plain.send("orders", "text")  # type: ignore[arg-type]
    texts = Producer(CONFIG, value=str)
    texts.send("orders", "text", key=b"key")
    assert_type(texts.send_many("orders", ["text"]), DeliveryRun)
    texts.send("orders", b"bytes")  # type: ignore[arg-type]
    texts.send("orders", "text", key="key")  # type: ignore[arg-type]
    texts.send_many("orders", [7])  # type: ignore[list-item]
    assert_type(Producer(key=str, value=int), Producer[str, int])
    assert_type(Producer(key=str, value="json"), Producer[str, Any])
    assert_type(Producer(key_serializer=write_text, value_serializer=write_order), Producer[str, Order])
    # A function that does not say what it takes takes anything.
    Producer(value_serializer=lambda value: json.dumps(value).encode()).send("orders", {"id": 7})
    Producer(value=Avro("http://localhost:8081")).send("orders", {"id": 7}, key=b"7")
    Producer(key=Avro("http://localhost:8081"), value=Avro("http://localhost:8081")).send("orders", {}, key={})
    Producer(value=42)  # type: ignore[call-overload]


async def what_an_awaitable_producer_takes() -> None:
    async with AsyncProducer(CONFIG, value=write_order) as producer:
        assert_type(await producer.send("orders", Order(b"")), Delivery)
        await producer.send("orders", "text")  # type: ignore[arg-type]

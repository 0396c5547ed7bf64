"""aiokafka as a client program: its event loop runs in a thread, orders are carried out on it.

It has no call to reset or delete a group: a consumer outside the group commits instead, and groups are not deleted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.conformance.clients.program import serve

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._consumer: AIOKafkaConsumer | None = None
        self._reading: Any = None
        self._read: list[str] = []

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(50)

    def _administer(self, call: str, *arguments: Any) -> Any:
        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await getattr(admin, call)(*arguments)
            finally:
                await admin.close()

        return self._do(run())

    def create(self, topic: str, partitions: int) -> None:
        answer = self._administer("create_topics", [NewTopic(topic, partitions, 1)])
        assert all(error[1] == 0 for error in answer.topic_errors), answer

    def delete_topic(self, topic: str) -> None:
        answer = self._administer("delete_topics", [topic])
        assert all(error[1] == 0 for error in answer.topic_error_codes), answer

    def topics(self) -> list[str]:
        return sorted(self._administer("list_topics"))

    def produce(self, topic: str, codec: str, values: list[str]) -> None:
        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap, compression_type=None if codec == "none" else codec, linger_ms=20
            )
            await producer.start()
            count = len(await producer.partitions_for(topic))
            sent = [await producer.send(topic, value.encode(), partition=n % count) for n, value in enumerate(values)]
            for each in sent:
                assert (await each).offset >= 0
            await producer.stop()

        self._do(run())

    def join(self, group: str, topic: str, assignor: str, instance: str | None, session_ms: int) -> None:
        async def run() -> None:
            self._consumer = AIOKafkaConsumer(
                topic, bootstrap_servers=self._bootstrap, group_id=group, group_instance_id=instance,
                partition_assignment_strategy=[ASSIGNORS[assignor]], session_timeout_ms=session_ms,
                heartbeat_interval_ms=300, auto_offset_reset="earliest", enable_auto_commit=False,
            )  # fmt: skip
            await self._consumer.start()
            self._reading = asyncio.create_task(self._read_on(self._consumer))

        self._do(run())

    async def _read_on(self, consumer: AIOKafkaConsumer) -> None:
        async for record in consumer:
            self._read.append(record.value.decode())

    def status(self) -> dict[str, Any]:
        assert self._consumer is not None
        return {"owned": sorted(each.partition for each in self._consumer.assignment()), "read": list(self._read)}

    def commit(self) -> dict[str, int]:
        async def run() -> dict[str, int]:
            assert self._consumer is not None
            offsets = {each: await self._consumer.position(each) for each in self._consumer.assignment()}
            await self._consumer.commit(offsets)
            return {str(each.partition): offset for each, offset in offsets.items()}

        return self._do(run())

    def leave(self) -> None:
        async def run() -> None:
            assert self._consumer is not None
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            await self._consumer.stop()
            self._consumer = None

        self._do(run())

    def describe(self, group: str) -> dict[str, Any]:
        [answer] = self._administer("describe_consumer_groups", [group])
        error, _, state, _, _, members, *_ = answer.groups[0]
        assert error == 0, answer
        return {"state": state, "members": len(members)}

    def offsets(self, group: str, topic: str) -> dict[str, int]:
        found = self._administer("list_consumer_group_offsets", group)
        return {str(each.partition): offset.offset for each, offset in found.items() if each.topic == topic}

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        async def run() -> None:
            consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, group_id=group, enable_auto_commit=False)
            await consumer.start()
            consumer.assign([TopicPartition(topic, partition)])
            await consumer.commit({TopicPartition(topic, partition): offset})
            await consumer.stop()

        self._do(run())

    def close(self) -> None:
        if self._consumer is not None:
            self.leave()


if __name__ == "__main__":
    serve(AioKafka)

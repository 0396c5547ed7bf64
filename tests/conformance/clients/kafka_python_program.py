"""kafka-python as a client program."""

from __future__ import annotations

import sys
import threading
import time
import traceback
import warnings
from typing import Any

with warnings.catch_warnings():
    # kafka-python loads its schemas through a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic
    from kafka.consumer.fetcher import Fetcher
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import KafkaError
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.selector import NetworkSelector
    from kafka.structs import OffsetAndMetadata

from tests.conformance.clients.program import HUNG, serve

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


# kafka-python 3.0 hands work over to its I/O thread, which on busy cores was seen not to be woken: the caller then
# waits for ever for something that needs no broker at all.
HUNG_AFTER_S = 10.0


def own_wait(thread: threading.Thread) -> threading.Event | None:
    """What the thread waits for if it waits for kafka-python itself; None if it does anything else, or wants a broker.

    The stack must end in the event that the I/O thread sets when it has done what it was handed, and that must be one
    of two things: sending fetches without waiting for their answers, or waiting with a time limit.
    """
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_filename == threading.__file__:
        frame = frame.f_back
    if frame is None or frame.f_code is not NetworkSelector.run.__code__:
        return None
    given = frame.f_locals
    call, arguments = getattr(given["coro"], "__func__", None), given["args"]
    is_sending = call is Fetcher._send_fetches_async
    is_limited = call is KafkaConnectionManager.wait_for and arguments[1] is not None
    return given.get("event") if is_sending or is_limited else None


class KafkaPython:
    """The consumer is used by its own thread only, as kafka-python demands; events tell it to commit and to stop."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._thread: threading.Thread | None = None
        self._consumer: Any = None
        self._is_stopping = threading.Event()
        self._wants_commit = threading.Event()
        self._has_committed = threading.Event()
        self._committed: dict[str, int] | KafkaError = {}
        self._owned: list[int] = []
        self._read: list[str] = []
        self._failure: BaseException | None = None
        self._own_wait: threading.Event | None = None
        self._own_wait_since = 0.0

    def create(self, topic: str, partitions: int) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1)])

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def topics(self) -> list[str]:
        return sorted(self._admin.list_topics())

    def produce(self, topic: str, codec: str, values: list[str]) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap, compression_type=None if codec == "none" else codec, linger_ms=20
        )
        count = len(producer.partitions_for(topic))
        sent = [producer.send(topic, value.encode(), partition=n % count) for n, value in enumerate(values)]
        producer.flush(30)
        assert all(each.get(10).offset >= 0 for each in sent)
        producer.close()

    def join(self, group: str, topic: str, assignor: str, instance: str | None, session_ms: int) -> None:
        self._is_stopping.clear()
        consumer = KafkaConsumer(
            topic, bootstrap_servers=self._bootstrap, group_id=group, group_instance_id=instance,
            partition_assignment_strategy=[ASSIGNORS[assignor]], session_timeout_ms=session_ms,
            heartbeat_interval_ms=300, auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        self._consumer = consumer
        self._thread = threading.Thread(target=self._run, args=[consumer, topic], daemon=True)
        self._thread.start()

    def _run(self, consumer: Any, topic: str) -> None:
        try:
            self._read_on(consumer, topic)
        except BaseException as failure:
            # Told by the next status: a member that ended by itself would look like one that waits.
            self._failure = failure
            raise

    def _read_on(self, consumer: Any, topic: str) -> None:
        # A leader that shares out a topic before it knows its partitions joins again when it does. If its poll ends
        # between that SyncGroup and the answer, kafka-python 3.0 forgets that it was joining: it never takes the
        # answer up and sends no heartbeat, and the others wait until the broker's patience with it is over. Seen in
        # two of 40 stories on busy cores (<rebalancing>, rejoin_needed=False, join=done); so it learns them first.
        consumer.partitions_for_topic(topic)
        while not self._is_stopping.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                self._read += [record.value.decode() for record in records]
            self._owned = sorted(each.partition for each in consumer.assignment())
            if self._wants_commit.is_set():
                self._wants_commit.clear()
                self._committed = self._commit_positions(consumer)
                self._has_committed.set()
        consumer.close()

    def _commit_positions(self, consumer: Any) -> dict[str, int] | KafkaError:
        offsets = {each: OffsetAndMetadata(consumer.position(each), "", -1) for each in consumer.assignment()}
        try:
            consumer.commit(offsets)
        except KafkaError as refusal:
            return refusal
        return {str(each.partition): offset.offset for each, offset in offsets.items()}

    def status(self) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        self._check_own_wait()
        return {"owned": self._owned, "read": list(self._read), "client": self._inner_state()}

    def _check_own_wait(self) -> None:
        """Raise when the thread has been in the same wait for itself for so long that it will not end."""
        waits_for = own_wait(self._thread) if self._thread is not None else None
        if waits_for is None or waits_for is not self._own_wait:
            self._own_wait, self._own_wait_since = waits_for, time.monotonic()
        elif time.monotonic() - self._own_wait_since > HUNG_AFTER_S:
            stack = traceback.format_stack(sys._current_frames()[self._thread.ident])
            raise RuntimeError(f"{HUNG}:\n{''.join(stack)}")

    def _inner_state(self) -> str:
        """How the client sees its membership; read beside its threads, so only for people."""
        if self._consumer is None:
            return "is no member"
        coordinator = self._consumer._coordinator
        joining = coordinator._join_task
        return (
            f"{coordinator.state} in {coordinator._generation} with {coordinator.coordinator_id}, "
            f"rejoin_needed={coordinator.rejoin_needed}, rejoining={coordinator.rejoining}, "
            f"join={None if joining is None else 'done' if joining.is_done else 'waits'}, "
            f"heartbeats={coordinator._heartbeat_enabled}, "
            f"last sent {time.monotonic() - coordinator.heartbeat.last_send:.1f} s ago"
        )

    def commit(self) -> dict[str, int]:
        self._has_committed.clear()
        self._wants_commit.set()
        assert self._has_committed.wait(30), "the commit took too long"
        if isinstance(self._committed, KafkaError):
            raise self._committed
        return self._committed

    def leave(self) -> None:
        assert self._thread is not None
        self._is_stopping.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._thread = None
        self._owned = []

    def describe(self, group: str) -> dict[str, Any]:
        described = self._admin.describe_groups([group])[group]
        return {"state": described["group_state"], "members": len(described["members"])}

    def offsets(self, group: str, topic: str) -> dict[str, int]:
        found = self._admin.list_group_offsets([group])[group]
        return {str(each.partition): offset.offset for each, offset in found.items() if each.topic == topic}

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._admin.alter_group_offsets(group, {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)})

    def delete_group(self, group: str) -> None:
        self._admin.delete_groups([group])

    def close(self) -> None:
        if self._thread is not None:
            self.leave()
        self._admin.close()


if __name__ == "__main__":
    serve(KafkaPython)

"""Our own consumer as a client program: one member of a group in a process of its own, beside other clients' ones."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import Any

from seamark.client import Consumer, TopicPartition
from tests.conformance.clients.program import serve


class Seamark:
    """The consumer is used by its own thread only, which also carries out commits."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._commits: queue.SimpleQueue[Future[dict[str, int]]] = queue.SimpleQueue()
        self._owned: list[int] = []
        self._read: list[str] = []

    def join(self, group: str, topic: str, assignor: str, instance: str | None, session_ms: int) -> None:
        options: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap, "group.id": group, "partition.assignment.strategy": assignor,
            "session.timeout.ms": session_ms, "heartbeat.interval.ms": 300, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "fetch.max.wait.ms": 100,
        }  # fmt: skip
        if instance is not None:
            options["group.instance.id"] = instance
        consumer = Consumer(options, value=str)
        consumer.subscribe([topic])
        self._is_stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(consumer,), daemon=True)
        self._thread.start()

    def _run(self, consumer: Consumer) -> None:
        while not self._is_stopping.is_set():
            self._read += [record.value for record in consumer.poll(0.1)]
            self._owned = sorted(each.partition for each in consumer.assignment())
            while not self._commits.empty():
                self._commit(consumer, self._commits.get())
        consumer.close()

    def _commit(self, consumer: Consumer, outcome: Future[dict[str, int]]) -> None:
        try:
            positions: dict[TopicPartition, int] = {each: consumer.position(each) for each in consumer.assignment()}
            consumer.commit(positions)
        except Exception as error:  # noqa: BLE001 - told to who gave the order
            outcome.set_exception(error)
        else:
            outcome.set_result({str(each.partition): offset for each, offset in positions.items()})

    def status(self) -> dict[str, Any]:
        return {"owned": self._owned, "read": list(self._read)}

    def commit(self) -> dict[str, int]:
        outcome: Future[dict[str, int]] = Future()
        self._commits.put(outcome)
        return outcome.result(30)

    def leave(self) -> None:
        assert self._thread is not None
        self._is_stopping.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._thread = None
        self._owned = []

    def close(self) -> None:
        if self._thread is not None:
            self.leave()


if __name__ == "__main__":
    serve(Seamark)

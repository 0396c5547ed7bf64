"""The port on confluent-kafka, for programs that have it already. Needs ``seamark[confluent]``.

Its defaults make a fast reader wait (a full second once its queue was full), so they are set otherwise unless the user
set them. It cannot be woken from another thread: a waiting poll looks up every few milliseconds, more often while there
is something to do. A waiting commit tells the first error alone, so a refused one is made again partition by partition.
Where a partition's log ends behind its last record, the end-of-partition event tells. Whether a log was truncated below
what was committed it does not look for: see ``confluent_start``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from seamark.client import Record
from seamark.errors import MissingExtra, SeamarkError
from seamark.parallel.adapters.confluent_errors import (
    ConfluentError,
    commit_error,
    is_for_all,
    not_sent,
    raise_if_fatal,
)
from seamark.parallel.adapters.confluent_start import StartChecks
from seamark.parallel.core.ports import (
    NO_EPOCH,
    CommitDone,
    Committed,
    Headers,
    Polled,
    ProduceDone,
    Rebalance,
    ToCommit,
)
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

try:
    import confluent_kafka
except ImportError:  # the sentence is raised when somebody wants a port
    confluent_kafka = None  # type: ignore[assignment]

Outcomes = dict[TopicPartition, BaseException | None]

_log = readable_logger("seamark.parallel")

# Without these its reader waits for a second whenever its queue was full, and its queue is small.
_FAST = {"queued.min.messages": 100_000, "fetch.queue.backoff.ms": 5}
# Names that Kafka's own clients use and this one does not: what it calls them, or None for those it does without.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.poll.records": None,
    "default.api.timeout.ms": None,
    "request.timeout.ms": "socket.timeout.ms",
    "ssl.truststore.location": "ssl.ca.location",
    "prefetch.max.bytes": None,
    "max.poll.bytes": None,
    "decoded.batch.max.bytes": None,
    "record.max.headers": None,
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
_CONSUMER_ONLY = ("group.", "session.", "heartbeat.", "auto.offset", "fetch.", "queued.", "max.poll", "isolation.")
_CONSUMER_KEYS = ("enable.auto.commit", "enable.partition.eof", "partition.assignment.strategy", "check.crcs")
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.001, 0.02
_COMMITTED_S = 30.0
_ANSWER_S = 90.0
_MANY = 10_000


class _Sent(NamedTuple):
    """A commit on its way."""

    offsets: dict[TopicPartition, ToCommit]
    done: CommitDone
    number: int
    since: float

    @property
    def plain(self) -> dict[TopicPartition, int]:
        return {partition: to_commit.offset for partition, to_commit in self.offsets.items()}


class ConfluentPort:
    def __init__(self, config: Mapping[str, Any], fetch_bytes: int) -> None:
        if confluent_kafka is None:
            raise MissingExtra('client="confluent"', "confluent")
        own = {"enable.auto.commit": False, "enable.auto.offset.store": False, "enable.partition.eof": True}
        bound = {"queued.max.messages.kbytes": max(1, fetch_bytes >> 10)}
        self._config = {**_FAST, **bound, **_read_config(config), **own}
        try:
            self._consumer = confluent_kafka.Consumer({**self._config, "on_commit": self._commit_ended})
        except confluent_kafka.KafkaException as error:
            raise ConfluentError("confluent-kafka rejects the configuration", error.args[0]) from None
        self._woken = threading.Event()
        self._look_s = _SHORTEST_LOOK_S
        self._sent: deque[_Sent] = deque()
        self._commits = 0
        self._finished: deque[Callable[[], object]] = deque()
        self._producer: Any = None
        self._is_closing = False
        self._starts = StartChecks(self._seek, self._log_start)

    def subscribe(self, topics: Sequence[str], rebalance: Rebalance) -> None:
        def assigned(_consumer: Any, partitions: list[Any]) -> None:
            # One that arrives while the consumer closes is given back at once, and nothing can be asked any more.
            if partitions and not self._is_closing:
                group_offsets = {_ours(answer): _read_committed(answer) for answer in self._committed(partitions)}
                for partition, committed in group_offsets.items():
                    self._starts.assigned(partition, committed)
                rebalance.on_assigned(group_offsets)

        def revoked(_consumer: Any, partitions: list[Any]) -> None:
            if partitions:
                self._starts.gone(map(_ours, partitions))
                rebalance.on_revoked([_ours(partition) for partition in partitions])

        def lost(_consumer: Any, partitions: list[Any]) -> None:
            if partitions:
                self._starts.gone(map(_ours, partitions))
                rebalance.on_lost([_ours(partition) for partition in partitions])

        self._consumer.subscribe(list(topics), on_assign=assigned, on_revoke=revoked, on_lost=lost)

    def _committed(self, partitions: list[Any]) -> list[Any]:
        try:
            answers: list[Any] = self._consumer.committed(partitions, timeout=_COMMITTED_S)
        except confluent_kafka.KafkaException as error:
            raise ConfluentError("committed offsets could not be read", error.args[0]) from None
        for answer in answers:
            if answer.error is not None:
                raise ConfluentError(f"the committed offset of {_ours(answer)} could not be read", answer.error)
        return answers

    # -- reading

    def poll(self, timeout: float, max_records: int) -> Sequence[Polled]:
        self._tell_finished()
        deadline = time.monotonic() + timeout
        while True:
            messages = self._consume(max_records, 0.0)
            if not messages and timeout > 0 and not self._woken.is_set():
                left = deadline - time.monotonic()
                if left > 0:
                    message = self._consumer.poll(min(self._look_s, left))
                    messages = [] if message is None else [message, *self._consume(max_records - 1, 0.0)]
            if messages or self._woken.is_set() or time.monotonic() >= deadline:
                break
            self._look_s = min(self._look_s * 2, _LONGEST_LOOK_S)
        if messages or self._woken.is_set():
            self._look_s = _SHORTEST_LOOK_S
        self._woken.clear()
        polled = self._by_partition(messages)
        self._tell_finished()
        return polled

    def _consume(self, most: int, timeout: float) -> list[Any]:
        if most < 1:
            return []
        try:
            messages: list[Any] = self._consumer.consume(min(most, _MANY), timeout)
        except confluent_kafka.KafkaException as error:
            raise ConfluentError("polling failed", error.args[0]) from None
        return messages

    def _by_partition(self, messages: Iterable[Any]) -> list[Polled]:
        runs: dict[tuple[str, int], list[Record]] = {}
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            place = message.topic(), message.partition()
            error = message.error()
            if error is not None:
                if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ends[place] = message.offset()
                else:
                    raise_if_fatal(error)
                continue
            kind, stamp = message.timestamp()
            record = Record(
                *place,
                message.offset(),
                message.key(),
                message.value(),
                message.headers() or (),
                stamp if kind else -1,
                max(0, kind - 1),
                _epoch(message.leader_epoch()),
            )
            run = runs.get(place)
            if run is None:
                runs[place] = [record]
            else:
                run.append(record)
        polled = []
        for place, records in runs.items():
            partition = TopicPartition(*place)
            wanted = self._starts.sift(partition, records)
            if wanted:
                polled.append(Polled(partition, wanted, ends.pop(place, -1)))
        for place, position in ends.items():
            partition = TopicPartition(*place)
            if not self._starts.is_looking_back(partition):
                polled.append(Polled(partition, (), position))
        return polled

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        try:
            self._consumer.seek(confluent_kafka.TopicPartition(*partition, offset))
        except confluent_kafka.KafkaException as error:
            raise ConfluentError(f"{partition} could not be read from offset {offset}", error.args[0]) from None

    def _log_start(self, partition: TopicPartition) -> int:
        try:
            log_start, _ = self._consumer.get_watermark_offsets(_theirs(partition), timeout=_COMMITTED_S)
        except confluent_kafka.KafkaException as error:
            raise ConfluentError(f"the start offset of {partition} could not be read", error.args[0]) from None
        return int(log_start)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(self._assigned(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(self._assigned(partitions))

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        ours = {_ours(partition) for partition in self._consumer.assignment()}
        return [_theirs(partition) for partition in partitions if partition in ours]

    # -- committing

    def commit(
        self,
        offsets: Mapping[TopicPartition, ToCommit],
        done: CommitDone | None = None,
        timeout: float | None = None,  # noqa: ARG002 - it waits as long as its own request timeout says
    ) -> Mapping[TopicPartition, BaseException | None]:
        self._commits += 1
        if done is None:
            # They share a connection, so those sent before are answered before.
            return self._commit_and_wait(offsets)
        sent = _Sent(dict(offsets), done, self._commits, time.monotonic())
        self._sent.append(sent)
        try:
            self._consumer.commit(offsets=[_theirs(*entry) for entry in offsets.items()], asynchronous=True)
        except (confluent_kafka.KafkaException, RuntimeError) as error:
            self._sent.remove(sent)
            self._finished.append(partial(done, dict.fromkeys(offsets, not_sent(error))))
        return {}

    def _commit_ended(self, error: Any, partitions: Sequence[Any]) -> None:
        """By the client, inside poll: a commit that was not waited for is over."""
        answers = {_ours(answer): answer for answer in partitions}
        answered = {partition: answer.offset for partition, answer in answers.items()}
        sent = next((commit for commit in self._sent if commit.plain == answered), None)
        if sent is None:
            return
        self._sent.remove(sent)
        if error is None or len(answers) == 1 or is_for_all(error):
            wrong = None if error is None else commit_error("the commit", error)
            self._finished.append(partial(sent.done, dict.fromkeys(answers, wrong)))
        else:
            self._finished.append(partial(self._say_each, sent, error))

    def _say_each(self, sent: _Sent, error: Any) -> None:
        """Some of the partitions were refused, and it does not tell which."""
        if sent.number == self._commits:
            sent.done(self._one_by_one(sent.offsets))
        else:
            # A later commit must not be undone.
            sent.done(dict.fromkeys(sent.offsets, commit_error("the commit", error)))

    def _commit_and_wait(self, offsets: Mapping[TopicPartition, ToCommit]) -> Outcomes:
        try:
            self._consumer.commit(offsets=[_theirs(*entry) for entry in offsets.items()], asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if len(offsets) > 1 and not is_for_all(error.args[0]):
                return self._one_by_one(offsets)
            return dict.fromkeys(offsets, commit_error("the commit", error.args[0]))
        except RuntimeError as error:
            return dict.fromkeys(offsets, not_sent(error))
        return dict.fromkeys(offsets)

    def _one_by_one(self, offsets: Mapping[TopicPartition, ToCommit]) -> Outcomes:
        """It tells the first error alone; by itself, each partition has its own."""
        return {
            partition: self._commit_and_wait({partition: to_commit})[partition]
            for partition, to_commit in offsets.items()
        }

    def _tell_finished(self) -> None:
        if self._sent and time.monotonic() - self._sent[0].since > _ANSWER_S:
            # Without an answer there would be no further commit.
            lost = self._sent.popleft()
            error = SeamarkError(f"no response to the commit within {_ANSWER_S:g} s")
            self._finished.append(partial(lost.done, dict.fromkeys(lost.offsets, error)))
        while self._finished:
            self._finished.popleft()()

    # -- dead letters

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: ProduceDone) -> None:
        if self._producer is None:
            config = {
                name: value
                for name, value in self._config.items()
                if not name.startswith(_CONSUMER_ONLY) and name not in (*_CONSUMER_KEYS, "enable.auto.offset.store")
            }
            # A dead-letter topic that is not there is an error soon. A record that came compressed may be larger than
            # a producer takes by default, and is compressed again.
            limits = {
                "message.timeout.ms": 15_000,
                "topic.metadata.propagation.max.ms": 5_000,
                "message.max.bytes": 256 << 20,
                "compression.type": "zstd",
            }
            self._producer = confluent_kafka.Producer({**limits, **config, "enable.idempotence": True})
            deliver = threading.Thread(
                target=self._deliver, args=(self._producer,), name="seamark-confluent-delivery", daemon=True
            )
            deliver.start()

        def delivered(error: Any, _message: Any) -> None:
            done(None if error is None else ConfluentError(f"the record for {topic}", error))

        self._producer.produce(topic, value, key, headers=list(headers), on_delivery=delivered)

    def _deliver(self, producer: Any) -> None:
        """Delivery reports, also while the owner waits for something else."""
        while self._producer is producer:
            producer.poll(0.1)

    # -- life

    def log_ends(self) -> dict[TopicPartition, int]:
        ends = {}
        for partition in self._consumer.assignment():
            _, end = self._consumer.get_watermark_offsets(partition, cached=True)
            # A negative number stands for "not known yet".
            if end >= 0:
                ends[_ours(partition)] = end
        return ends

    def wake(self) -> None:
        self._woken.set()

    def close(self, timeout: float) -> None:
        self._is_closing = True
        try:
            self._consumer.close()
        finally:
            producer, self._producer = self._producer, None
            if producer is not None and (left := producer.flush(timeout)):
                _log.error(
                    "%d dead letters were not acknowledged within %g s; their records are not committed and will be "
                    "handled again",
                    left,
                    timeout,
                )


def _read_config(config: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, value in config.items():
        wanted = _RENAMED.get(name, name)
        if wanted is not None and value is not None:
            settings[wanted] = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
    return settings


def _ours(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def _theirs(partition: TopicPartition, to_commit: ToCommit | None = None) -> Any:
    if to_commit is None:
        return confluent_kafka.TopicPartition(*partition)
    # It would write an empty text as one null character.
    metadata: dict[str, Any] = {"metadata": to_commit.metadata} if to_commit.metadata else {}
    epoch = to_commit.leader_epoch
    return confluent_kafka.TopicPartition(*partition, to_commit.offset, leader_epoch=epoch, **metadata)


def _read_committed(partition: Any) -> Committed:
    # Negative numbers stand for "none".
    if partition.offset < 0:
        return Committed(-1)
    return Committed(partition.offset, (partition.metadata or "").rstrip("\0"), _epoch(partition.leader_epoch))


def _epoch(told: int | None) -> int:
    return NO_EPOCH if told is None else told

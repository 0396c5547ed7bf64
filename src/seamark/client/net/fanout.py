"""Questions about many things: sent side by side to the brokers concerned, and asked again until each is answered.

``retry_each`` asks about what is still open, keeps the final answers, and asks again about the rest after a backoff.
Errors that only a change by somebody else can heal are final, even where Kafka calls them retriable: a topic that does
not exist is an answer to an administrator.

Brokers bound what one request may hold, change and be answered with. What is more is asked in several, one request
after the other. Each thing has its value or its error in ``Results``, and raising is the caller's choice: what was done
stays done when a later request fails.

    results = admin.create_topics([NewTopic("a"), NewTopic("b")])
    results.errors          # {"b": Refused("CreateTopics of topic 'b': TOPIC_ALREADY_EXISTS …")}
    results["a"]            # the value; results["b"] raises its error
    results.raise_if_failed()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from seamark.client.cluster_view import Node
from seamark.client.config.config import ClientConfig
from seamark.client.errors import (
    BrokerError,
    ClientError,
    CoordinatorMoved,
    NetworkError,
    NoBrokerAvailable,
    OperationTimedOut,
    broker_error,
)
from seamark.client.net.client import NetworkClient
from seamark.client.net.exchanges import MOST_AT_ONCE
from seamark.client.requests import Request
from seamark.client.timing import Deadline, ExponentialBackoff
from seamark.portions import portions
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)
V = TypeVar("V")

_LEADERSHIP = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

K = TypeVar("K")

# Asks one coordinator about some of its groups.
AskNode = Callable[[Node, list[str]], Awaitable[dict[str, V | ClientError]]]

# An attempt answers for some or all of the keys; keys that it leaves out are asked about again.
Attempt = Callable[[Sequence[K]], Awaitable[dict[K, V | ClientError]]]

_FINAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.REBALANCE_IN_PROGRESS})


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Each topic once, with the indexes asked for (A2).

    >>> by_topic([TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 0)])
    {'a': [1, 0], 'b': [0]}
    """
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return indexes


async def by_leader(
    network: NetworkClient,
    partitions: Sequence[TopicPartition],
    make: Callable[[Sequence[TopicPartition]], Request],
    response: type[M],
    read: Callable[[M], dict[TopicPartition, V | ClientError]],
    deadline: Deadline,
    *,
    min_version: int = 0,
) -> dict[TopicPartition, V | ClientError]:
    """One request per leader, all at once; what shows old knowledge of leaders makes the metadata stale."""
    view = await network.ensure_topics({partition.topic for partition in partitions}, deadline)
    if network.metadata.is_stale:
        view = await network.refresh_metadata(deadline)
    answers: dict[TopicPartition, V | ClientError] = {}
    per_node: dict[int, list[TopicPartition]] = {}
    network.metadata.drop_topics({p.topic for p in partitions if view.topics[p.topic].error})
    for partition in partitions:
        leader = view.leader(partition)
        topic = view.topics[partition.topic]
        if leader is not None and not topic.error:
            per_node.setdefault(leader.id, []).append(partition)
            continue
        missing = partition.partition not in topic.partitions
        code = topic.error or (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else ErrorCode.LEADER_NOT_AVAILABLE)
        answers[partition] = broker_error(code, "Metadata", f"partition {partition}")

    async def ask(node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, V | ClientError]:
        try:
            return read(await network.send(node_id, make(some), response, deadline=deadline, min_version=min_version))
        except ClientError as error:
            network.metadata.mark_stale()
            return dict.fromkeys(some, error)

    for answered in await asyncio.gather(*(ask(node_id, some) for node_id, some in per_node.items())):
        answers.update(answered)
    if any(isinstance(answer, BrokerError) and answer.code in _LEADERSHIP for answer in answers.values()):
        network.metadata.mark_stale()
    return answers


async def by_coordinator(
    network: NetworkClient,
    groups: Sequence[str],
    ask: AskNode[V],
    deadline: Deadline,
    *,
    at_once: int,
    weigh: Callable[[str], int] | None = None,
) -> dict[str, V | ClientError]:
    """Ask each group's coordinator, up to ``at_once`` groups in a request, or so many that weigh as much.

    A coordinator that moved is forgotten.
    """
    answers: dict[str, V | ClientError] = {}
    per_node: dict[Node, list[str]] = {}
    for group_id, coordinator in (await network.coordinators.find_each(groups, deadline)).items():
        if isinstance(coordinator, ClientError):
            answers[group_id] = coordinator
        else:
            per_node.setdefault(coordinator, []).append(group_id)

    async def ask_one(node: Node, some: list[str]) -> dict[str, V | ClientError]:
        try:
            answered = await ask(node, some)
        except NetworkError as error:
            if not error.is_retriable:
                raise
            for group_id in some:
                network.coordinators.moved(group_id, node)
            return dict.fromkeys(some, error)
        for group_id, answer in answered.items():
            if isinstance(answer, CoordinatorMoved):
                network.coordinators.moved(group_id, node)
        return answered

    parts = [ask_one(node, part) for node, some in per_node.items() for part in portions(some, at_once, weigh)]
    for answered in await asyncio.gather(*parts):
        answers.update(answered)
    return answers


def is_final(error: ClientError) -> bool:
    """Whether asking again would only get the same answer."""
    return not error.is_retriable or (isinstance(error, BrokerError) and error.code in _FINAL)


async def retry_each(
    keys: Iterable[K],
    attempt: Attempt[K, V],
    *,
    operation: str,
    config: ClientConfig,
    deadline: Deadline,
    at_once: int = MOST_AT_ONCE,
    weigh: Callable[[K], int] | None = None,
) -> Results[K, V]:
    """Values and errors for all keys, asked about ``at_once`` at a time, or so many that weigh as much.

    A network error that time cannot heal is raised if nothing was answered before. Otherwise it is the error of all
    that is still open, which is not asked about any more.
    """
    backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
    open_keys = list(dict.fromkeys(keys))
    values: dict[K, V] = {}
    errors: dict[K, ClientError] = {}
    last: dict[K, ClientError] = {}
    failures = 0
    while open_keys:
        answers: dict[K, V | ClientError] = {}
        lasting: ClientError | None = None
        for part in portions(open_keys, at_once, weigh):
            if lasting is not None:
                answers |= dict.fromkeys(part, lasting)
                continue
            try:
                answers |= await attempt(part)
            except ClientError as error:
                if isinstance(error, NoBrokerAvailable | OperationTimedOut) or is_final(error):
                    if not (values or errors or answers):
                        raise
                    lasting = error
                answers |= dict.fromkeys(part, error)
        still_open = []
        for key in open_keys:
            answer = answers.get(key)
            if isinstance(answer, ClientError):
                if answer is lasting or is_final(answer):
                    errors[key] = answer
                else:
                    last[key] = answer
                    still_open.append(key)
            elif key in answers:
                values[key] = answer  # type: ignore[assignment]
            else:
                still_open.append(key)
        open_keys = still_open
        if not open_keys:
            break
        failures += 1
        wait_s = backoff.wait_ms(failures) / 1000
        if deadline.remaining <= wait_s:
            for key in open_keys:
                errors[key] = deadline.timed_out(operation, last.get(key))
            break
        await asyncio.sleep(wait_s)
    return Results(values, errors)


class SomeFailed(ClientError):
    """Some of the things asked for failed; ``errors`` says which, and how."""

    def __init__(self, errors: Mapping[Any, ClientError], asked: int) -> None:
        first = next(iter(errors.values()))
        more = f" (and {len(errors) - 1} more of {asked})" if len(errors) > 1 else ""
        super().__init__(f"{first}{more}")
        self.errors = dict(errors)
        self.is_retriable = all(error.is_retriable for error in errors.values())


class Results(Mapping[K, V], Generic[K, V]):
    """A mapping of what succeeded; ``errors`` has the rest. Together they cover what was asked for."""

    __slots__ = ("errors", "values_by_key")

    def __init__(self, values_by_key: dict[K, V], errors: dict[K, ClientError]) -> None:
        self.values_by_key = values_by_key
        self.errors = errors

    def __getitem__(self, key: K) -> V:
        if key in self.errors:
            raise self.errors[key]
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)

    def __contains__(self, key: object) -> bool:
        return key in self.values_by_key

    def raise_if_failed(self) -> Self:
        """Raise the one error, or SomeFailed for several; otherwise give the results themselves."""
        if len(self.errors) == 1:
            raise next(iter(self.errors.values()))
        if self.errors:
            raise SomeFailed(dict(self.errors), len(self.errors) + len(self.values_by_key))
        return self

    def __repr__(self) -> str:
        return f"Results({self.values_by_key!r}, errors={self.errors!r})"

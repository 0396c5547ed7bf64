"""Which broker coordinates each of many groups: one batched lookup, remembered until it proves wrong.

What ListGroups tells (a broker lists the groups that it coordinates) counts as a lookup too, so describing every group
of a cluster needs none. Brokers before 3.0 take one key per request; those are sent together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from seamark.client.cluster_view import Node
from seamark.client.errors import BrokerError, ClientError, CoordinatorMoved, NetworkError, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.coordinators import BATCHED, coordinators_of, find_coordinator_request
from seamark.client.net.fanout import MOST_AT_ONCE
from seamark.client.timing import Deadline
from seamark.portions import portions
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

V = TypeVar("V")

# Asks one coordinator about some of its groups.
AskNode = Callable[[Node, list[str]], Awaitable[dict[str, V | ClientError]]]


class GroupCoordinators:
    """What one admin client knows. Owned by the I/O loop."""

    def __init__(self, network: NetworkClient) -> None:
        self._network = network
        self._nodes: dict[str, Node] = {}

    def learn(self, group_id: str, node: Node) -> None:
        self._nodes[group_id] = node

    def forget(self, group_id: str) -> None:
        """An answer showed that the coordinator is another one."""
        self._nodes.pop(group_id, None)

    async def ask(
        self,
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
        for group_id, found in (await self._find(groups, deadline)).items():
            if isinstance(found, ClientError):
                answers[group_id] = found
            else:
                per_node.setdefault(found, []).append(group_id)

        async def ask_one(node: Node, some: list[str]) -> dict[str, V | ClientError]:
            try:
                return await ask(node, some)
            except NetworkError as error:
                if not error.is_retriable:
                    raise
                for group_id in some:
                    self._nodes.pop(group_id, None)
                return dict.fromkeys(some, error)

        parts = [ask_one(node, part) for node, some in per_node.items() for part in portions(some, at_once, weigh)]
        for found_answers in await asyncio.gather(*parts):
            answers.update(found_answers)
        for group_id, answer in answers.items():
            if isinstance(answer, CoordinatorMoved):
                self._nodes.pop(group_id, None)
        return answers

    async def _find(self, groups: Sequence[str], deadline: Deadline) -> dict[str, Node | ClientError]:
        found: dict[str, Node | ClientError] = {name: self._nodes[name] for name in groups if name in self._nodes}
        unknown = [name for name in groups if name not in found]
        if not unknown:
            return found
        for group_id, answer in (await self._look_up(unknown, deadline)).items():
            found[group_id] = answer
            if isinstance(answer, Node):
                self._network.learn_node(answer)
                self._nodes[group_id] = answer
        missing = broker_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "FindCoordinator", "a group left out of the answer")
        return {name: found.get(name, missing) for name in groups}

    async def _look_up(self, groups: list[str], deadline: Deadline) -> dict[str, Node | ClientError]:
        connection = await self._network.any_connection(deadline)
        assert connection.versions is not None
        batched = connection.versions.has(FindCoordinatorRequest, least=BATCHED)
        batches = portions(groups, MOST_AT_ONCE if batched else 1)
        answers = await asyncio.gather(*(self._look_up_batch(batch, deadline, batched) for batch in batches))
        return {group_id: answer for part in answers for group_id, answer in part.items()}

    async def _look_up_batch(
        self, groups: list[str], deadline: Deadline, batched: bool
    ) -> dict[str, Node | ClientError]:
        response = await self._network.send_to_any(
            find_coordinator_request(groups),
            FindCoordinatorResponse,
            deadline=deadline,
            max_version=None if batched else BATCHED - 1,
        )
        return {
            group_id: node if node is not None else _not_found(code, group_id, message)
            for group_id, (code, node, message) in coordinators_of(response, groups).items()
        }


def _not_found(code: int, group_id: str, message: str | None) -> BrokerError:
    return broker_error(code, "FindCoordinator", f"group {group_id!r}", message)

"""Settings of topics, brokers and groups, for the admin client. Runs on the I/O loop.

A broker's own settings are asked of that broker and changed there; everything else goes to any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from seamark.client.admin.types import (
    CONFIG_OPERATIONS,
    CONFIG_SOURCES,
    RESOURCE_TYPES,
    ConfigChange,
    ConfigEntry,
    Resource,
    number_of,
    word_of,
)
from seamark.client.arguments import read_items, read_mapping
from seamark.client.errors import ClientError, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import Results, retry_each
from seamark.client.timing import Deadline
from seamark.errors import UsageError
from seamark.wire.protocol.messages import describe_configs as describe_api
from seamark.wire.protocol.messages import incremental_alter_configs as alter_api
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

_BROKER_KINDS = ("broker", "broker_logger")
_DEFAULT_SOURCE = 5
# Each is answered with some thirty settings.
_DESCRIBED_AT_ONCE = 2_500
# Half of what Kafka's controller takes in one request.
_CHANGED_AT_ONCE = 5_000


async def describe_configs(
    network: NetworkClient, resources: Iterable[Resource], deadline: Deadline
) -> Results[Resource, dict[str, ConfigEntry]]:
    asked = read_items("resources", resources, Resource)

    async def ask(
        node_id: int | None, some: Sequence[Resource]
    ) -> dict[Resource, dict[str, ConfigEntry] | ClientError]:
        request = describe_api.DescribeConfigsRequest(
            resources=[
                describe_api.DescribeConfigsRequestResource(
                    resource_type=RESOURCE_TYPES[resource.kind], resource_name=resource.name, configuration_keys=None
                )
                for resource in some
            ]
        )
        response = await _send(network, node_id, request, describe_api.DescribeConfigsResponse, deadline)
        answers: dict[Resource, dict[str, ConfigEntry] | ClientError] = {}
        for result in response.results:
            resource = Resource(word_of(result.resource_type, RESOURCE_TYPES), result.resource_name)
            answers[resource] = (
                broker_error(result.error_code, "DescribeConfigs", str(resource), result.error_message)
                if result.error_code
                else {config.name: _entry(config) for config in result.configs}
            )
        return answers

    async def attempt(some: Sequence[Resource]) -> dict[Resource, dict[str, ConfigEntry] | ClientError]:
        parts = await asyncio.gather(*(ask(node_id, part) for node_id, part in _by_node(some).items()))
        return {resource: answer for part in parts for resource, answer in part.items()}

    return await retry_each(
        asked, attempt, operation="describing configs", config=network.config, deadline=deadline,
        at_once=_DESCRIBED_AT_ONCE,
    )  # fmt: skip


def _entry(config: describe_api.DescribeConfigsResponseConfig) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        CONFIG_SOURCES.get(config.config_source, f"unknown({config.config_source})"),
        config.config_source == _DEFAULT_SOURCE,
        config.read_only,
        config.is_sensitive,
    )


async def alter_configs(
    network: NetworkClient,
    changes: Mapping[Resource, Mapping[str, ConfigChange | str | None]],
    deadline: Deadline,
    *,
    validate_only: bool = False,
) -> Results[Resource, None]:
    """Change single settings and leave the others; None takes a setting back to its default."""
    read_items("changes", read_mapping("changes", changes, "Resource"), Resource)
    wanted = {
        resource: {
            name: _change(change) for name, change in read_mapping(f"changes to {resource}", settings, "name").items()
        }
        for resource, settings in changes.items()
    }

    async def ask(node_id: int | None, some: Sequence[Resource]) -> dict[Resource, ClientError | None]:
        request = alter_api.IncrementalAlterConfigsRequest(
            resources=[_altered(resource, wanted[resource]) for resource in some], validate_only=validate_only
        )
        response = await _send(network, node_id, request, alter_api.IncrementalAlterConfigsResponse, deadline)
        answers: dict[Resource, ClientError | None] = {}
        for result in response.responses:
            resource = Resource(word_of(result.resource_type, RESOURCE_TYPES), result.resource_name)
            answers[resource] = (
                broker_error(result.error_code, "IncrementalAlterConfigs", str(resource), result.error_message)
                if result.error_code
                else None
            )
        return answers

    async def attempt(some: Sequence[Resource]) -> dict[Resource, ClientError | None]:
        parts = await asyncio.gather(*(ask(node_id, part) for node_id, part in _by_node(some).items()))
        return {resource: answer for part in parts for resource, answer in part.items()}

    return await retry_each(
        wanted, attempt, operation="altering configs", config=network.config, deadline=deadline,
        at_once=_CHANGED_AT_ONCE, weigh=lambda resource: 1 + len(wanted[resource]),
    )  # fmt: skip


def _change(change: ConfigChange | str | None) -> ConfigChange:
    if isinstance(change, ConfigChange):
        number_of(change.operation, CONFIG_OPERATIONS, "the operation of a change")
        return change
    return ConfigChange(None, "delete") if change is None else ConfigChange(str(change))


def _altered(
    resource: Resource, changes: Mapping[str, ConfigChange]
) -> alter_api.IncrementalAlterConfigsRequestResource:
    return alter_api.IncrementalAlterConfigsRequestResource(
        resource_type=RESOURCE_TYPES[resource.kind],
        resource_name=resource.name,
        configs=[
            alter_api.IncrementalAlterConfigsRequestConfig(
                name=name, config_operation=CONFIG_OPERATIONS[change.operation], value=change.value
            )
            for name, change in changes.items()
        ],
    )


def _by_node(resources: Sequence[Resource]) -> dict[int | None, list[Resource]]:
    """Resources by the broker that must be asked; None stands for any. An empty broker name is the default of all."""
    by_node: dict[int | None, list[Resource]] = {}
    for resource in resources:
        node_id: int | None = None
        if resource.kind in _BROKER_KINDS and resource.name:
            if not resource.name.isdigit():
                raise UsageError(f"a broker resource is named by its node id, got {resource.name!r}")
            node_id = int(resource.name)
        by_node.setdefault(node_id, []).append(resource)
    return by_node


async def _send(
    network: NetworkClient, node_id: int | None, request: Message, response: type[M], deadline: Deadline
) -> M:
    if node_id is None:
        return await network.send_to_any(request, response, deadline=deadline)
    if network.node(node_id) is None:
        await network.refresh_metadata(deadline)
    return await network.send(node_id, request, response, deadline=deadline)

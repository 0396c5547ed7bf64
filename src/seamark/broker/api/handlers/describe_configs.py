"""DescribeConfigs: the configuration of topics and nodes, and where each value comes from.

A resource that is named more than once is answered once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.acls import CLUSTER_NAME, Operation, ResourceType
from seamark.broker.api.config_resources import BROKER_RESOURCE, TOPIC_RESOURCE, broker_named
from seamark.broker.cluster.cluster import require_topic
from seamark.broker.cluster.topics import check_name
from seamark.broker.config.key import ConfigKey
from seamark.broker.config.table import SERVED
from seamark.broker.config.topic_configs import (
    DEFAULT_SOURCE,
    DYNAMIC_DEFAULT_SOURCE,
    TOPIC_KEYS,
    Sourced,
    broker_sources,
    effective,
    sources,
)
from seamark.broker.net.slices import lazily
from seamark.broker.refusals import RequestRefused
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "DescribeConfigs"
VERSIONS = "1-4"
HAS_LONG_ANSWERS = True


def handle(node: Services, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    # A resource has hundreds of times the bytes of its name: one that is named again is not described again.
    resources = {(each.resource_type, each.resource_name): each for each in request.resources}.values()
    return DescribeConfigsResponse(
        results=lazily(partial(_result, node, context, request.include_synonyms), list(resources))
    )


def _result(
    node: Services, context: RequestContext, with_synonyms: bool, resource: DescribeConfigsRequestResource
) -> DescribeConfigsResponseResult:
    result = DescribeConfigsResponseResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    # No key asked for means all of them, in Kafka's broker as in its documentation.
    wanted = frozenset(resource.configuration_keys or ()) or None
    try:
        result.configs = [
            config for config in _configs(node, resource, context) if wanted is None or config.name in wanted
        ]
    except RequestRefused as refusal:
        result.error_code, result.error_message = refusal.code, refusal.reason
    if not with_synonyms:
        for config in result.configs:
            config.synonyms = []
    return result


def _configs(
    node: Services, resource: DescribeConfigsRequestResource, context: RequestContext
) -> list[DescribeConfigsResponseConfig]:
    if resource.resource_type == TOPIC_RESOURCE:
        return _topic_configs(node, resource, context)
    if resource.resource_type == BROKER_RESOURCE:
        return _broker_configs(node, resource, context)
    raise RequestRefused(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no configuration here")


def _topic_configs(
    node: Services, resource: DescribeConfigsRequestResource, context: RequestContext
) -> list[DescribeConfigsResponseConfig]:
    name = resource.resource_name
    if not context.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not see its configuration")
    check_name(name)
    own = require_topic(node.cluster, name).config.own
    described = []
    for key in TOPIC_KEYS.values():
        found = effective(key, own, node.settings)
        every = list(sources(key, own, node.settings))
        described.append(_describe(key, found.value, found.source, every))
    return described


def _broker_configs(
    node: Services, resource: DescribeConfigsRequestResource, context: RequestContext
) -> list[DescribeConfigsResponseConfig]:
    if not context.may(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise RequestRefused(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the client may not see the broker's configuration"
        )
    is_default = broker_named(node, resource.resource_name) is None
    described = []
    for key in SERVED.values():
        every = list(broker_sources([key.name], node.settings))
        if is_default:
            # The resource of all nodes shows only what was changed for all of them while they ran.
            every = [each for each in every if each.source == DYNAMIC_DEFAULT_SOURCE]
            if not every:
                continue
        value, source = (every[0].value, every[0].source) if every else (None, DEFAULT_SOURCE)
        config = _describe(key, value, source, every)
        config.read_only = not key.is_dynamic
        described.append(config)
    return described


def _describe(key: ConfigKey, value: Any, source: int, every: list[Sourced]) -> DescribeConfigsResponseConfig:
    return DescribeConfigsResponseConfig(
        name=key.name,
        value=None if key.is_sensitive else key.show(value),
        config_source=source,
        is_sensitive=key.is_sensitive,
        synonyms=[
            DescribeConfigsResponseSynonym(
                name=each.key, value=None if key.is_sensitive else key.show(each.value), source=each.source
            )
            for each in every
        ],
        config_type=key.kind,
        documentation=None,
    )


def refuse(request: DescribeConfigsRequest, version: int, code: ErrorCode) -> DescribeConfigsResponse:  # noqa: ARG001
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponseResult(
                error_code=code,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )

"""IncrementalAlterConfigs: change single settings of topics and of the broker, all of a resource or none of them.

All nodes share one configuration, so a change to one is a change to all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from seamark.acls import CLUSTER_NAME, Operation, ResourceType
from seamark.broker.api.config_resources import BROKER_RESOURCE, TOPIC_RESOURCE, broker_named
from seamark.broker.api.topic_rules import MOST_CHANGES, TooManyChanges
from seamark.broker.cluster.cluster import require_topic
from seamark.broker.config.key import ConfigKey, ConfigType
from seamark.broker.config.table import SERVED
from seamark.broker.config.topic_configs import effective, parse_topic_configs, topic_key
from seamark.broker.refusals import RequestRefused
from seamark.errors import ConfigError
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from seamark.wire.schema.primitives import MAX_STRING

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.cluster.topics import Topic
    from seamark.broker.net.context import RequestContext

API = "IncrementalAlterConfigs"
VERSIONS = "0-1"
SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(
    node: Services, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    response = IncrementalAlterConfigsResponse()
    if len(request.resources) + sum(len(resource.configs) for resource in request.resources) > MOST_CHANGES:
        refusal = TooManyChanges()
        response = refuse(request, context.version, refusal.code)
        for each in response.responses:
            each.error_message = refusal.reason
        return response
    changes = _Changes()
    for resource in request.resources:
        result = IncrementalAlterConfigsResponseResource(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        response.responses.append(result)
        try:
            _check_request(resource, is_repeated=counts[resource.resource_type, resource.resource_name] > 1)
            _alter(node, resource, context, changes)
            changes.results.append(result)
        except RequestRefused as refused:
            result.error_code, result.error_message = refused.code, refused.reason or None
    if not request.validate_only:
        changes.apply(node)
    return response


class _Changes:
    """What a request changes, and the results that depend on it: all is written at once, or none of it counts."""

    def __init__(self) -> None:
        self.topics: list[tuple[Topic, dict[str, Any]]] = []
        # The values for the node and for all nodes.
        self.broker: dict[bool, dict[str, Any]] = {}
        self.results: list[IncrementalAlterConfigsResponseResource] = []

    def apply(self, node: Services) -> None:
        if not self.results:
            return
        try:
            node.cluster.change_configs(self.topics, self.broker)
        except StorageFailed as error:
            for result in self.results:
                result.error_code, result.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)


def _check_request(resource: IncrementalAlterConfigsRequestResource, *, is_repeated: bool) -> None:
    if is_repeated:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "the resource is named more than once")
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "a configuration key is given more than once")


def _alter(
    node: Services, resource: IncrementalAlterConfigsRequestResource, context: RequestContext, changes: _Changes
) -> None:
    if resource.resource_type == TOPIC_RESOURCE:
        if not context.may(Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource.resource_name):
            raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not change its configuration")
        changes.topics.append(_altered_topic(node, resource))
    elif resource.resource_type == BROKER_RESOURCE:
        if not context.may(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
            raise RequestRefused(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the client may not change the broker's configuration"
            )
        is_default = broker_named(node, resource.resource_name) is None
        changes.broker[is_default] = _altered_broker(node, resource)
    else:
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no configuration here"
        )


def _altered_topic(node: Services, resource: IncrementalAlterConfigsRequestResource) -> tuple[Topic, dict[str, Any]]:
    topic = require_topic(node.cluster, resource.resource_name)
    values: dict[str, Any] = dict(topic.config.own)
    for change in resource.configs:
        key = topic_key(change.name)
        if change.config_operation == DELETE:
            values.pop(change.name, None)
        else:
            present = effective(key, topic.config.own, node.settings).value
            values[change.name] = parse_topic_configs({change.name: _changed(key, present, change)})[change.name]
    return topic, values


def _altered_broker(node: Services, resource: IncrementalAlterConfigsRequestResource) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for change in resource.configs:
        key = SERVED.get(change.name)
        if key is None:
            # Kafka takes keys that it does not know, since they may be a plugin's; nothing here reads them.
            continue
        if not key.is_dynamic:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"{change.name} cannot be changed while the broker runs")
        if change.config_operation == DELETE:
            changes[change.name] = None
            continue
        try:
            changes[change.name] = key.parse(_changed(key, node.settings[change.name], change))
        except ConfigError as error:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
    return changes


def _changed(key: ConfigKey, present: Any, change: IncrementalAlterConfigsRequestConfig) -> str:
    """Return the new value as text."""
    if change.config_operation not in (SET, APPEND, SUBTRACT):
        # Kafka does not expect this either: its answer is the code for what nobody thought of, without a sentence.
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "")
    if change.value is None:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"{key.name} was given without a value")
    if change.config_operation == SET:
        return change.value
    if key.kind is not ConfigType.LIST:
        raise RequestRefused(
            ErrorCode.INVALID_CONFIG, f"{key.name} is no list, to which something could be added or taken from"
        )
    given = dict.fromkeys(item.strip() for item in change.value.split(",") if item.strip())
    items: list[str] = list(present or [])
    if change.config_operation == APPEND:
        known = set(items)
        items += [item for item in given if item not in known]
    else:
        items = [item for item in items if item not in given]
    text = ",".join(items)
    if len(text.encode()) > MAX_STRING:
        raise RequestRefused(
            ErrorCode.INVALID_CONFIG, f"the value of {key.name} would be longer than {MAX_STRING} bytes"
        )
    return text


def refuse(
    request: IncrementalAlterConfigsRequest,
    version: int,  # noqa: ARG001
    code: ErrorCode,
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponseResource(
                error_code=code,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )

"""CreateAcls: add access rules; each is answered for itself, and one that is there already is no error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, ResourceType
from seamark.broker.api.topic_rules import MOST_CHANGES, TooManyChanges
from seamark.errors import ConfigError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    CreateAclsResponseResult,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "CreateAcls"
VERSIONS = "1-3"


def handle(node: Services, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    if not context.may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return _all(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    if node.security.acls is None:
        return _all(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if any(map(_is_filter, request.creations)):
        # What only filters may have makes Kafka's broker fail, and with it the whole request.
        return _all(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    if len(request.creations) > MOST_CHANGES:
        refusal = TooManyChanges()
        return _all(request, refusal.code, refusal.reason)
    rules: list[Acl] = []
    results = []
    for creation in request.creations:
        result = CreateAclsResponseResult()
        try:
            rules.append(_rule(creation))
        except ConfigError as error:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = f"Invalid {error.option}: {error.reason}"
        results.append(result)
    if rules:
        node.security.change_acls(node.cluster, add=rules)
    return CreateAclsResponse(results=results)


def _is_filter(creation: CreateAclsRequestCreation) -> bool:
    return (
        creation.resource_type == ResourceType.ANY
        or creation.operation == Operation.ANY
        or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or creation.permission_type == PermissionType.ANY
    )


def _rule(creation: CreateAclsRequestCreation) -> Acl:
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise ConfigError(
            "resource name", creation.resource_name, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        )
    return Acl(
        creation.principal,
        creation.operation,
        creation.resource_type,
        creation.resource_name,
        pattern=creation.resource_pattern_type,
        permission=creation.permission_type,
        host=creation.host,
    )


def _all(request: CreateAclsRequest, code: ErrorCode, sentence: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[CreateAclsResponseResult(error_code=code, error_message=sentence) for _ in request.creations]
    )


def refuse(request: CreateAclsRequest, version: int, code: ErrorCode) -> CreateAclsResponse:  # noqa: ARG001
    return _all(request, code, None)

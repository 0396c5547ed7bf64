"""DescribeAcls: the access rules that a filter means, those of one resource pattern together."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, Acl, Operation, PatternType, ResourceType
from seamark.broker.net.slices import lazily
from seamark.broker.security.acl import filter_of
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "DescribeAcls"
VERSIONS = "1-3"
HAS_LONG_ANSWERS = True


def handle(node: Services, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    if not context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    acls = node.security.acls
    if acls is None:
        return _refused(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = filter_of(request)
    if wanted is None:
        return _refused(ErrorCode.INVALID_REQUEST, "The filter has a number that is not known.")
    rules = sorted(acls.matching(wanted), key=_pattern)
    groups = [(pattern, list(group)) for pattern, group in groupby(rules, _pattern)]
    return DescribeAclsResponse(resources=lazily(_resource, groups))


def _resource(found: tuple[tuple[ResourceType, str, PatternType], list[Acl]]) -> DescribeAclsResponseResource:
    (resource_type, name, pattern), rules = found
    return DescribeAclsResponseResource(
        resource_type=resource_type, resource_name=name, pattern_type=pattern, acls=lazily(_rule, rules)
    )


def _rule(rule: Acl) -> DescribeAclsResponseAcl:
    return DescribeAclsResponseAcl(
        principal=rule.principal, host=rule.host, operation=rule.operation, permission_type=rule.permission
    )


def _pattern(rule: Acl) -> tuple[ResourceType, str, PatternType]:
    return rule.resource_type, rule.name, rule.pattern


def _refused(code: ErrorCode, sentence: str) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=sentence)


def refuse(request: DescribeAclsRequest, version: int, code: ErrorCode) -> DescribeAclsResponse:  # noqa: ARG001
    return DescribeAclsResponse(error_code=code)

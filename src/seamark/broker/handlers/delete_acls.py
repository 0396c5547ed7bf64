"""DeleteAcls: remove the access rules that any of the filters means; each filter is answered with the rules it
removed.

Kafka keeps all its rules; here some are given when the broker is started, and would be back after the next start. They
are not removed, and each is answered with an error of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.broker.acl_filters import AclFilter
from seamark.broker.acl_rules import Acl
from seamark.broker.operations import CLUSTER_NAME, Operation, ResourceType
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
    DeleteAclsResponseMatchingAcl,
)

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "DeleteAcls"
VERSIONS = "1-3"
_GIVEN_AT_START = (
    "The rule was given when the broker was started: remove it there and start the broker again; "
    "a rule that denies the same takes effect at once."
)


def handle(node: Node, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    if not context.may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return _all(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    acls = node.security.acls
    if acls is None:
        return _all(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    removed: set[Acl] = set()
    results = []
    for fields in request.filters:
        wanted = AclFilter.from_request(fields)
        if wanted is None:
            results.append(
                DeleteAclsResponseFilterResult(
                    error_code=ErrorCode.INVALID_REQUEST, error_message="The filter has a number that is not known."
                )
            )
            continue
        # A rule that two filters mean is in both answers, as in Kafka's.
        found = acls.matching(wanted)
        removed.update(found)
        results.append(
            DeleteAclsResponseFilterResult(
                matching_acls=[_matching(rule, is_given=node.security.is_given(rule)) for rule in found]
            )
        )
    if removed:
        node.security.change_acls(node.cluster, remove=removed)
    return DeleteAclsResponse(filter_results=results)


def _matching(rule: Acl, *, is_given: bool) -> DeleteAclsResponseMatchingAcl:
    return DeleteAclsResponseMatchingAcl(
        error_code=ErrorCode.POLICY_VIOLATION if is_given else ErrorCode.NONE,
        error_message=_GIVEN_AT_START if is_given else None,
        resource_type=rule.resource_type,
        resource_name=rule.name,
        pattern_type=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def _all(request: DeleteAclsRequest, code: ErrorCode, sentence: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsResponseFilterResult(error_code=code, error_message=sentence) for _ in request.filters
        ]
    )


def refuse(request: DeleteAclsRequest, version: int, code: ErrorCode) -> DeleteAclsResponse:  # noqa: ARG001
    return _all(request, code, None)

"""DeleteAcls: remove the access rules that any of the filters means; each filter is answered with the rules it
removed.

Kafka keeps all its rules; here some are given when the broker is started, and would be back after the next start. They
are not removed, and each is answered with an error of its own. If a request had created the same rule too, that copy is
deleted, so that the rule is gone when it is no longer given; the error says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, Acl, AclFilter, Operation, ResourceType
from seamark.broker.net.slices import lazily
from seamark.broker.security.acl import filter_of
from seamark.counts import number_text
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
    DeleteAclsResponseMatchingAcl,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "DeleteAcls"
VERSIONS = "1-3"
_GIVEN_AT_START = (
    "The rule was given when the broker was started: remove it there and start the broker again; "
    "a rule that denies the same takes effect at once."
)
_COPY_DELETED = f"The rule that CreateAcls made is deleted, but stays in effect. {_GIVEN_AT_START}"
HAS_LONG_ANSWERS = True
# A filter that names one resource looks at the rules of that, any other at all rules.
_MOST_RULES_LOOKED_AT = 100_000
_TOO_MUCH = f"The filters look at more than {number_text(_MOST_RULES_LOOKED_AT)} rules: send fewer of them at once."


def handle(node: Services, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    if not context.may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return _all(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    acls = node.security.acls
    if acls is None:
        return _all(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    filters = [filter_of(fields) for fields in request.filters]
    distinct = {wanted for wanted in filters if wanted is not None}
    if sum(map(acls.cost_of, distinct)) > _MOST_RULES_LOOKED_AT:
        return _all(request, ErrorCode.INVALID_REQUEST, _TOO_MUCH)
    found = {wanted: acls.matching(wanted) for wanted in distinct}
    # A rule that two filters mean is in both answers, as in Kafka's.
    if sum(len(found[wanted]) for wanted in filters if wanted is not None) > _MOST_RULES_LOOKED_AT:
        return _all(request, ErrorCode.INVALID_REQUEST, _TOO_MUCH)
    removed = {rule for rules in found.values() for rule in rules}
    copies = node.security.created_among(removed)
    if removed:
        node.security.change_acls(node.cluster, remove=removed)

    def matching(rule: Acl) -> DeleteAclsResponseMatchingAcl:
        if not node.security.is_given(rule):
            return _matching(rule, ErrorCode.NONE, None)
        return _matching(rule, ErrorCode.POLICY_VIOLATION, _COPY_DELETED if rule in copies else _GIVEN_AT_START)

    def answer(wanted: AclFilter | None) -> DeleteAclsResponseFilterResult:
        if wanted is None:
            return DeleteAclsResponseFilterResult(
                error_code=ErrorCode.INVALID_REQUEST, error_message="The filter has a number that is not known."
            )
        return DeleteAclsResponseFilterResult(matching_acls=lazily(matching, found[wanted]))

    return DeleteAclsResponse(filter_results=lazily(answer, filters))


def _matching(rule: Acl, code: ErrorCode, sentence: str | None) -> DeleteAclsResponseMatchingAcl:
    return DeleteAclsResponseMatchingAcl(
        error_code=code,
        error_message=sentence,
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

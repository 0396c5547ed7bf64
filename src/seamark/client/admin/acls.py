"""Access rules, for the admin client. Runs on the I/O loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.client.admin.types import (
    ACL_OPERATIONS,
    ACL_PATTERNS,
    ACL_PERMISSIONS,
    ACL_RESOURCES,
    Acl,
    word_of,
)
from seamark.client.arguments import read_items
from seamark.client.errors import ClientError, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import Results, retry_each
from seamark.client.timing import Deadline
from seamark.errors import UsageError
from seamark.wire.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation, CreateAclsResponse
from seamark.wire.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter, DeleteAclsResponse
from seamark.wire.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

# Half of what Kafka's controller takes in one request. A filter may mean many rules.
_CREATED_AT_ONCE = 5_000
_FILTERS_AT_ONCE = 1_000


async def describe_acls(network: NetworkClient, matching: Acl, deadline: Deadline) -> list[Acl]:
    """The rules that match a filter."""

    async def attempt(filters: Sequence[Acl]) -> dict[Acl, list[Acl] | ClientError]:
        wanted = filters[0]
        request = DescribeAclsRequest(
            resource_type_filter=ACL_RESOURCES[wanted.resource],
            resource_name_filter=wanted.name,
            pattern_type_filter=ACL_PATTERNS[wanted.pattern],
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=ACL_OPERATIONS[wanted.operation],
            permission_type=ACL_PERMISSIONS[wanted.permission],
        )
        response = await network.send_to_any(request, DescribeAclsResponse, deadline=deadline)
        if response.error_code:
            error = broker_error(response.error_code, "DescribeAcls", "the cluster", response.error_message)
            return {wanted: error}
        acls = [
            _acl(
                resource.resource_type, resource.resource_name, resource.pattern_type, acl.principal, acl.host,
                acl.operation, acl.permission_type,
            )
            for resource in response.resources
            for acl in resource.acls
        ]  # fmt: skip
        return {wanted: acls}

    results = await retry_each(
        [matching], attempt, operation="describing ACLs", config=network.config, deadline=deadline
    )
    return results.raise_if_failed()[matching]


async def create_acls(network: NetworkClient, rules: Iterable[Acl], deadline: Deadline) -> Results[Acl, None]:
    asked = read_items("rules", rules, Acl)
    for rule in asked:
        if rule.name is None or rule.principal is None or rule.host is None:
            raise UsageError(f"an ACL to create needs a resource name, a principal and a host, got {rule}")

    async def attempt(some: Sequence[Acl]) -> dict[Acl, ClientError | None]:
        request = CreateAclsRequest(
            creations=[
                CreateAclsRequestCreation(
                    resource_type=ACL_RESOURCES[rule.resource],
                    resource_name=rule.name or "",
                    resource_pattern_type=ACL_PATTERNS[rule.pattern],
                    principal=rule.principal or "",
                    host=rule.host or "",
                    operation=ACL_OPERATIONS[rule.operation],
                    permission_type=ACL_PERMISSIONS[rule.permission],
                )
                for rule in some
            ]
        )
        response = await network.send_to_any(request, CreateAclsResponse, deadline=deadline)
        return {
            rule: broker_error(each.error_code, "CreateAcls", f"{rule.resource} {rule.name!r}", each.error_message)
            if each.error_code
            else None
            for rule, each in zip(some, response.results, strict=False)
        }

    return await retry_each(
        asked, attempt, operation="creating ACLs", config=network.config, deadline=deadline,
        at_once=_CREATED_AT_ONCE,
    )  # fmt: skip


async def delete_acls(network: NetworkClient, filters: Iterable[Acl], deadline: Deadline) -> Results[Acl, list[Acl]]:
    """Remove the rules that match any of the filters; the answer has the removed ones per filter."""
    asked = read_items("filters", filters, Acl)

    async def attempt(some: Sequence[Acl]) -> dict[Acl, list[Acl] | ClientError]:
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsRequestFilter(
                    resource_type_filter=ACL_RESOURCES[each.resource],
                    resource_name_filter=each.name,
                    pattern_type_filter=ACL_PATTERNS[each.pattern],
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=ACL_OPERATIONS[each.operation],
                    permission_type=ACL_PERMISSIONS[each.permission],
                )
                for each in some
            ]
        )
        response = await network.send_to_any(request, DeleteAclsResponse, deadline=deadline)
        answers: dict[Acl, list[Acl] | ClientError] = {}
        for matching, result in zip(some, response.filter_results, strict=False):
            code, message = result.error_code, result.error_message
            for acl in result.matching_acls:
                code, message = code or acl.error_code, message or acl.error_message
            if code:
                answers[matching] = broker_error(code, "DeleteAcls", "the cluster", message)
                continue
            answers[matching] = [
                _acl(
                    acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation,
                    acl.permission_type,
                )
                for acl in result.matching_acls
            ]  # fmt: skip
        return answers

    return await retry_each(
        asked, attempt, operation="deleting ACLs", config=network.config, deadline=deadline,
        at_once=_FILTERS_AT_ONCE,
    )  # fmt: skip


def _acl(resource: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int) -> Acl:
    return Acl(
        word_of(resource, ACL_RESOURCES),
        name,
        principal,
        word_of(operation, ACL_OPERATIONS),
        word_of(permission, ACL_PERMISSIONS),
        word_of(pattern, ACL_PATTERNS),
        host,
    )

"""Access rules, for the admin client. Runs on the I/O loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.acls import Acl, AclFilter
from seamark.client.arguments import read_items
from seamark.client.errors import ClientError, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import Results, retry_each
from seamark.client.timing import Deadline
from seamark.wire.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation, CreateAclsResponse
from seamark.wire.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter, DeleteAclsResponse
from seamark.wire.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

# Half of what Kafka's controller takes in one request. A filter may mean many rules.
_CREATED_AT_ONCE = 5_000
_FILTERS_AT_ONCE = 1_000


async def describe_acls(network: NetworkClient, matching: AclFilter, deadline: Deadline) -> list[Acl]:
    """The rules that match a filter."""

    async def attempt(filters: Sequence[AclFilter]) -> dict[AclFilter, list[Acl] | ClientError]:
        wanted = filters[0]
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        response = await network.send_to_any(request, DescribeAclsResponse, deadline=deadline)
        if response.error_code:
            error = broker_error(response.error_code, "DescribeAcls", "the cluster", response.error_message)
            return {wanted: error}
        acls = [
            Acl.received(
                acl.principal, acl.operation, resource.resource_type, resource.resource_name, resource.pattern_type,
                acl.permission_type, acl.host,
            )
            for resource in response.resources
            for acl in resource.acls
        ]  # fmt: skip
        return {wanted: acls}

    results = await retry_each(
        [matching], attempt, operation="describing access rules", config=network.config, deadline=deadline
    )
    return results.raise_if_failed()[matching]


async def create_acls(network: NetworkClient, rules: Iterable[Acl], deadline: Deadline) -> Results[Acl, None]:
    asked = read_items("rules", rules, Acl)

    async def attempt(some: Sequence[Acl]) -> dict[Acl, ClientError | None]:
        request = CreateAclsRequest(
            creations=[
                CreateAclsRequestCreation(
                    resource_type=rule.resource_type,
                    resource_name=rule.name,
                    resource_pattern_type=rule.pattern,
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission,
                )
                for rule in some
            ]
        )
        response = await network.send_to_any(request, CreateAclsResponse, deadline=deadline)
        return {
            rule: broker_error(each.error_code, "CreateAcls", str(rule), each.error_message)
            if each.error_code
            else None
            for rule, each in zip(some, response.results, strict=False)
        }

    return await retry_each(
        asked, attempt, operation="creating access rules", config=network.config, deadline=deadline,
        at_once=_CREATED_AT_ONCE,
    )  # fmt: skip


async def delete_acls(
    network: NetworkClient, filters: Iterable[AclFilter], deadline: Deadline
) -> Results[AclFilter, list[Acl]]:
    """Remove the rules that match any of the filters; the answer has the removed ones per filter."""
    asked = read_items("filters", filters, AclFilter)

    async def attempt(some: Sequence[AclFilter]) -> dict[AclFilter, list[Acl] | ClientError]:
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsRequestFilter(
                    resource_type_filter=each.resource_type,
                    resource_name_filter=each.name,
                    pattern_type_filter=each.pattern,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in some
            ]
        )
        response = await network.send_to_any(request, DeleteAclsResponse, deadline=deadline)
        answers: dict[AclFilter, list[Acl] | ClientError] = {}
        for matching, result in zip(some, response.filter_results, strict=False):
            code, message = result.error_code, result.error_message
            for acl in result.matching_acls:
                code, message = code or acl.error_code, message or acl.error_message
            if code:
                answers[matching] = broker_error(code, "DeleteAcls", "the cluster", message)
                continue
            answers[matching] = [
                Acl.received(
                    acl.principal, acl.operation, acl.resource_type, acl.resource_name, acl.pattern_type,
                    acl.permission_type, acl.host,
                )
                for acl in result.matching_acls
            ]  # fmt: skip
        return answers

    return await retry_each(
        asked, attempt, operation="deleting access rules", config=network.config, deadline=deadline,
        at_once=_FILTERS_AT_ONCE,
    )  # fmt: skip

"""DescribeCluster: id, controller and nodes of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, ResourceType
from seamark.broker.security.operations import authorized_operations
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "DescribeCluster"
VERSIONS = "0-2"
BROKERS, CONTROLLERS = 1, 2


def handle(node: Services, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLERS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        response = refuse(request, context.version, code)
        response.error_message = f"endpoint type {request.endpoint_type} cannot be asked for: this is a broker"
        return response
    cluster = node.cluster
    response = DescribeClusterResponse(cluster_id=cluster.cluster_id, controller_id=cluster.controller_id)
    for each in cluster.nodes:
        if each.is_running or request.include_fenced_brokers:
            address = each.address_for(context.connection)
            response.brokers.append(
                DescribeClusterResponseBroker(
                    broker_id=each.id,
                    host=address.host,
                    port=address.port,
                    rack=each.rack,
                    is_fenced=not each.is_running,
                )
            )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations(
            context.connection.session, ResourceType.CLUSTER, CLUSTER_NAME
        )
    return response


def refuse(request: DescribeClusterRequest, version: int, code: ErrorCode) -> DescribeClusterResponse:  # noqa: ARG001
    return DescribeClusterResponse(error_code=code)

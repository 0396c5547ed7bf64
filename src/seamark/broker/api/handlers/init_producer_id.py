"""InitProducerId: an id for an idempotent producer. Transactions do not exist here, so a transactional id is refused
at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, Operation, ResourceType
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "InitProducerId"
VERSIONS = "0-5"


def handle(node: Services, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if request.transactional_id else ErrorCode.INVALID_REQUEST
        )
        return refuse(request, context.version, code)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return refuse(request, context.version, ErrorCode.INVALID_REQUEST)
    if not _may_produce(context):
        return refuse(request, context.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        producer_id = node.cluster.next_producer_id()
    except StorageFailed:
        return refuse(request, context.version, ErrorCode.KAFKA_STORAGE_ERROR)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _may_produce(context: RequestContext) -> bool:
    """Whoever may write to some topic, there or not, may do so as an idempotent producer."""
    if context.may(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return True
    return context.connection.session.authorize_some(Operation.WRITE, ResourceType.TOPIC)


def refuse(request: InitProducerIdRequest, version: int, code: ErrorCode) -> InitProducerIdResponse:  # noqa: ARG001
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)

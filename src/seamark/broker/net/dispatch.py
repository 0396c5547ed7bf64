"""From a frame to the handler of its API, and what is answered when there is none (A12).

As Kafka does: an unknown API, a version that is not served or a body that cannot be decoded closes the connection
with one log line, except that ApiVersions in an unknown version is answered in version 0 with the versions that are
served. A handler that raises is a bug of ours: its request is answered UNKNOWN_SERVER_ERROR and the traceback is
logged, except where the disk refused, which is KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from struct import Struct

from seamark.broker.net.context import LONG_REQUEST_BYTES, ClientConnection, RequestContext, ServingNode
from seamark.broker.net.endpoint import AnswerSteps, Endpoint, Frame
from seamark.broker.sharing.turns import Rest, Steps
from seamark.errors import DecodeError
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import API_VERSIONS, RequestHeader
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from seamark.wire.schema.codec import decode_from
from seamark.wire.schema.schema import Message

# Larger requests are read in steps.
READ_AT_ONCE_BYTES = 1 << 12

# Tagged fields in a request's header. No client sends any.
_MAX_HEADER_TAGS = 100

# Api key, version, correlation id, length of the client id.
_HEADER_START = Struct(">hhih")


def serve(node: ServingNode, connection: ClientConnection, frame: Frame, now: float) -> None:
    """Handle one request frame; its answer reaches the connection now or later."""
    session = connection.session
    if session.expects_token:
        session.take_token(connection, bytes(frame))
        return
    if len(frame) < 8:
        connection.close(f"sent a request of {len(frame)} bytes, which is shorter than a request header")
        return
    key = int.from_bytes(frame[:2], signed=True)
    endpoint = node.endpoints.get(key)
    if endpoint is None:
        connection.close(f"sent a request for API key {key}, which is not supported")
        return
    version = int.from_bytes(frame[2:4], signed=True)
    try:
        if version not in endpoint.versions:
            _refuse_version(connection, endpoint, frame, version, now)
            return
        # Asked before the body is looked at: strangers get no further than they must.
        if not session.may_call(endpoint.api.name):
            connection.close(f"sent {endpoint.api.name} {session.why_not}")
            return
        correlation_id, client_id, position = _read_header(frame, endpoint.header_versions[version])
    except DecodeError as error:
        _close_unreadable(connection, endpoint, version, error)
        return
    node.turns.api = key
    if version not in endpoint.used:
        # Decoders and encoders are compiled when they are needed. A large request takes its time by itself.
        endpoint.used.add(version)
        if len(frame) <= READ_AT_ONCE_BYTES:
            node.turns.note_first_use()
    context = RequestContext(connection, endpoint, version, correlation_id, client_id, now, len(frame))
    connection.begin(context)
    if len(frame) > READ_AT_ONCE_BYTES:
        context.take_turns(_serve_in_steps(node, context, frame, position))
        return
    try:
        # As in Kafka, bytes behind the last field are nobody's business: librdkafka sends three of them when it asks
        # for the metadata of all topics.
        request, _ = endpoint.decode(frame, position, version)
    except DecodeError as error:
        _close_unreadable(connection, endpoint, version, error)
        return
    _run_or_intercept(node, request, context)


def _serve_in_steps(node: ServingNode, context: RequestContext, frame: Frame, position: int) -> Steps:
    """Read a large request a little at a time, then handle it."""
    connection, endpoint, version = context.connection, context.endpoint, context.version
    connection.count_reading(len(frame))
    steps = endpoint.decode_in_steps(frame, position, version)
    try:
        while True:
            next(steps)
            yield None
            if not connection.is_open:
                return
    except StopIteration as end:
        request = end.value
    except DecodeError as error:
        _close_unreadable(connection, endpoint, version, error)
        return
    except Exception:  # noqa: BLE001 - the edge where a bug becomes an answer, and is told
        connection.tell_bug(f"{endpoint.api.name} version {version} could not be decoded")
        connection.close("sent a request that could not be decoded")
        return
    connection.count_reading(0)
    yield Rest(connection.share)
    node.turns.api = endpoint.api.key
    _run_or_intercept(node, request, context)


def _close_unreadable(connection: ClientConnection, endpoint: Endpoint, version: int, error: DecodeError) -> None:
    connection.close(f"sent {endpoint.api.name} version {version}, which cannot be decoded: {error}")


def _run_or_intercept(node: ServingNode, request: Message, context: RequestContext) -> None:
    faults = node.faults
    if not (faults.is_active and faults.intercept(node, request, context)):
        run(node, request, context)


def run(node: ServingNode, request: Message, context: RequestContext) -> None:
    """Call the handler; also the way back in for a request that a fault held up."""
    endpoint = context.endpoint
    handler = endpoint.handler
    if endpoint.has_long_answers or context.request_bytes > LONG_REQUEST_BYTES:
        context.request = request
    try:
        response = handler.handle(node, request, context)
        if isinstance(response, Message):
            context.reply(response)
        elif response is not None:
            context.take_turns(_answer_in_steps(node, request, context, response))
    except Exception as error:  # noqa: BLE001 - the edge where a bug becomes an answer, and is told
        _answer_failure(node, request, context, error)


def _answer_in_steps(node: ServingNode, request: Message, context: RequestContext, steps: AnswerSteps) -> Steps:
    try:
        response = yield from steps
        if response is not None:
            context.reply(response)
    except Exception as error:  # noqa: BLE001 - as in ``run``
        _answer_failure(node, request, context, error)


def _answer_failure(node: ServingNode, request: Message, context: RequestContext, error: Exception) -> None:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(error, StorageFailed):
        node.note_failure(context.endpoint.api.name, error)
        code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        context.connection.tell_bug(f"{context.endpoint.api.name} version {context.version} failed")
    if not context.is_answered:
        answer_refused(request, context, code)


def answer_refused(request: Message, context: RequestContext, code: ErrorCode) -> None:
    """Answer with one error for everything; a client that expects no answer loses its connection instead."""
    if getattr(request, "acks", 1) == 0:
        context.hang_up(f"sent a request that has no response, and it failed: {code.name}")
    else:
        context.reply(context.endpoint.handler.refuse(request, context.version, code))


def _read_header(frame: Frame, header_version: int) -> tuple[int, str, int]:
    """Return correlation id, client id and where the body starts."""
    if len(frame) >= 10:
        _, _, correlation_id, length = _HEADER_START.unpack_from(frame)
        end = 10 + max(length, 0)
        # The usual header: a client id and no tagged field. All others take the general way.
        if header_version == 1 and end <= len(frame):
            return correlation_id, _client_id(frame[10:end]), end
        if header_version == 2 and end < len(frame) and frame[end] == 0:
            return correlation_id, _client_id(frame[10:end]), end + 1
    header, position = decode_from(RequestHeader, frame, 0, header_version, _MAX_HEADER_TAGS)
    return header.correlation_id, header.client_id or "", position


def _client_id(raw: Frame) -> str:
    return str(raw, "utf-8", "replace")


def _refuse_version(connection: ClientConnection, endpoint: Endpoint, frame: Frame, version: int, now: float) -> None:
    if endpoint.api.key != API_VERSIONS:
        connection.close(f"sent {endpoint.api.name} version {version}, supported are {endpoint.versions!r}")
        return
    # The client cannot know yet what is served: answered in the version that everyone reads. Its header may be of a
    # version that is not known here either, so only the correlation id is taken from it.
    correlation_id = int.from_bytes(frame[4:8], signed=True)
    context = RequestContext(connection, endpoint, 0, correlation_id, "", now, len(frame))
    connection.begin(context)
    served = ApiVersionsResponseApi(
        api_key=API_VERSIONS, min_version=endpoint.versions.first, max_version=endpoint.versions.last
    )
    context.reply(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[served]))

"""Making a connection that is ready for requests: TCP, TLS, versions, authentication; each failure in one sentence.

The whole of it has one time limit per stage: ``socket.connection.setup.timeout.ms`` for TCP and TLS, the request
timeout for each request behind them. What fails here is translated once, with the address and the probable cause: a
port that speaks TLS and one that does not look alike to a client that guessed wrong.

The first question is asked in the newest ApiVersions this build has; a broker that does not know it answers in version
0 with UNSUPPORTED_VERSION and what it does know, and is asked again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable

from seamark._version import __version__
from seamark.client.cluster_view import Node
from seamark.client.config.credentials import Credentials
from seamark.client.errors import (
    ConnectionFailed,
    NetworkError,
    PeerProtocolError,
    RequestTimedOut,
    TlsFailed,
)
from seamark.client.net.connection import BrokerVersions, Connection, reason_of
from seamark.client.net.sasl import SaslConversation
from seamark.client.timing import MonotonicClock
from seamark.errors import DecodeError
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.frames import decode_response
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seamark.wire.schema.schema import Message

# The share of a session's lifetime after which its connection is replaced; Kafka's client uses 0.85 to 0.95.
_SESSION_SHARE = 0.85
# OpenSSL's words for an answer that is none in TLS; alerts and all else come from a port that speaks it.
_NOT_TLS = {"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"}

Progress = Callable[[str], None]

API_VERSIONS_NEWEST = ApiVersionsRequest.versions.last


class ConnectionRecipe:
    """What all connections of one client have in common."""

    __slots__ = (
        "client_id", "clock", "credentials", "receive_buffer_bytes", "request_timeout_s", "security_protocol",
        "send_buffer_bytes", "tls",
    )  # fmt: skip

    def __init__(
        self,
        *,
        client_id: str,
        request_timeout_s: float,
        security_protocol: str = "PLAINTEXT",
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        clock: MonotonicClock = time.monotonic,
    ) -> None:
        self.client_id = client_id
        self.request_timeout_s = request_timeout_s
        self.security_protocol = security_protocol
        self.tls = tls
        self.credentials = credentials
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes
        self.clock = clock


async def open_connection(
    node: Node, recipe: ConnectionRecipe, setup_timeout_s: float, progress: Progress = lambda _: None
) -> Connection:
    """A connection that is ready for requests; NetworkError says what went wrong. ``progress`` is told each stage."""
    connection = await _connect(node, recipe, setup_timeout_s, progress)
    try:
        progress("connected, waiting for the ApiVersions response")
        await _negotiate(connection, recipe)
        if recipe.credentials is not None:
            progress(f"connected, authenticating with {recipe.credentials.mechanism}")
            await _authenticate(connection, recipe, recipe.credentials)
        connection.is_set_up()
    except BaseException:
        connection.close()
        raise
    return connection


async def _connect(node: Node, recipe: ConnectionRecipe, timeout_s: float, progress: Progress) -> Connection:
    if not 0 < node.port < 65_536:
        # The system would take it modulo 65536, and connect to a port that nobody named.
        raise ConnectionFailed(node.address, f"port {node.port} is not from 1 to 65535")
    loop = asyncio.get_running_loop()
    progress("connecting")
    hostname = node.host if recipe.tls is not None else None
    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await loop.create_connection(
                lambda: Connection(node.address, recipe.client_id, loop, recipe.clock),
                node.host,
                node.port,
                ssl=recipe.tls,
                server_hostname=hostname,
            )
    except ssl.SSLCertVerificationError as error:
        reason = f"the broker's certificate was rejected: {error.verify_message}"
        raise TlsFailed(node.address, reason) from error
    except ssl.SSLError as error:
        reason = str(getattr(error, "reason", None) or error)
        hint = _other_security(recipe) if reason in _NOT_TLS else ""
        raise TlsFailed(node.address, f"the TLS handshake failed ({reason}){hint}") from error
    except TimeoutError:
        raise ConnectionFailed(node.address, f"not connected within {timeout_s:g} s") from None
    except socket.gaierror as error:
        raise ConnectionFailed(node.address, f"the host name cannot be resolved ({reason_of(error)})") from error
    except UnicodeError as error:
        # A name with an empty or overlong part; ``error`` may repeat the whole of it.
        raise ConnectionFailed(node.address, "the host name is invalid") from error
    except (ConnectionResetError, ConnectionAbortedError, EOFError) as error:
        what = "the peer closed the connection immediately"
        if recipe.tls is not None:
            what = f"the peer closed the connection during the TLS handshake{_other_security(recipe)}"
        raise ConnectionFailed(node.address, what) from error
    except OSError as error:
        raise ConnectionFailed(node.address, f"cannot connect ({_short(error)})") from error
    _set_socket_options(connection, recipe)
    return connection


def _other_security(recipe: ConnectionRecipe) -> str:
    """What a peer looks like that ends the connection instead of answering, and which setting says otherwise."""
    protocol = recipe.security_protocol
    if recipe.tls is not None:
        other = "PLAINTEXT or SASL_PLAINTEXT"
        return f", as a port without TLS does; if this is one, set security.protocol to {other} (it is {protocol})"
    return f", as a TLS port does; if this is one, set security.protocol to SSL or SASL_SSL (it is {protocol})"


def _short(error: OSError) -> str:
    """The event loop puts the address into the text of a failed connect; the sentence has it already."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return reason_of(error)


def _set_socket_options(connection: Connection, recipe: ConnectionRecipe) -> None:
    opened = connection.socket
    if opened is None:
        return
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, size in (
        (socket.SO_SNDBUF, recipe.send_buffer_bytes),
        (socket.SO_RCVBUF, recipe.receive_buffer_bytes),
    ):
        if size >= 0:
            opened.setsockopt(socket.SOL_SOCKET, name, size)


async def _negotiate(connection: Connection, recipe: ConnectionRecipe) -> None:
    version: int | None = API_VERSIONS_NEWEST
    response = None
    while version is not None:
        try:
            frame = await connection.request_raw(hello(), version, recipe.request_timeout_s)
        except RequestTimedOut as error:
            raise ConnectionFailed(
                connection.address, f"connected, but no response to ApiVersions within {error.seconds:g} s"
            ) from error
        except PeerProtocolError:
            raise
        except NetworkError as error:
            reason = f"the peer closed the connection after the first request{_other_security(recipe)}"
            raise ConnectionFailed(connection.address, reason) from error
        response = read_hello(frame, version, connection.address)
        asked, version = version, next_hello_version(response, connection.address)
        if version is not None and version >= asked:
            raise PeerProtocolError(
                connection.address, f"the broker rejects ApiVersions version {asked} and supports up to {version}"
            )
    assert response is not None
    connection.versions = BrokerVersions(connection.address, response)


async def _authenticate(connection: Connection, recipe: ConnectionRecipe, credentials: Credentials) -> None:
    versions = connection.versions
    assert versions is not None

    async def ask(message: Message, response: type[Message]) -> Message:
        # Handshake version 0 would be followed by bare tokens; brokers since 1.0 speak version 1.
        version = versions.choose(type(message), least=1 if message.api_key == 17 else 0)
        return await connection.request(message, response, version, recipe.request_timeout_s)

    lifetime_ms = await SaslConversation(connection.address, credentials, ask).authenticate()
    if lifetime_ms > 0:
        connection.session_ends_at = recipe.clock() + lifetime_ms / 1000 * _SESSION_SHARE


def hello() -> ApiVersionsRequest:
    """The first request on a connection."""
    return ApiVersionsRequest(client_software_name="seamark", client_software_version=__version__)


def read_hello(frame: bytes | memoryview, version: int, address: str) -> ApiVersionsResponse:
    """The answer to ``hello``; one in version 0 is recognised by its error code, whatever was asked.

    The error code stands at the same place in all versions.
    """
    if len(frame) >= 6 and int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    try:
        _, response = decode_response(ApiVersionsResponse, frame, version)
    except DecodeError as error:
        raise PeerProtocolError(
            address, f"the response to the first request is not valid Kafka protocol ({error})"
        ) from error
    return response


def next_hello_version(response: ApiVersionsResponse, address: str) -> int | None:
    """The version to ask again with, or None if the answer stands."""
    code = error_code(response.error_code)
    if code is ErrorCode.NONE:
        return None
    if code is not ErrorCode.UNSUPPORTED_VERSION:
        raise PeerProtocolError(address, f"the broker rejected the first request with {code.name}")
    # Brokers before 2.4 answer with an empty list.
    offered = [each.max_version for each in response.api_keys if each.api_key == ApiVersionsRequest.api_key]
    return min(offered[0], API_VERSIONS_NEWEST - 1) if offered else 0

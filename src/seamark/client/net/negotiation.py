"""Which version of an API to speak with one broker: the newest that both sides and the caller allow (A12, A14).

Brokers from 2.4 to 4.x are met: the range a broker announced decides, never its release. The first question is asked in
the newest ApiVersions this build has; a broker that does not know it answers in version 0 with UNSUPPORTED_VERSION and
what it does know, and is asked again.
"""

from __future__ import annotations

from seamark._version import __version__
from seamark.client.errors import PeerProtocolError, UnsupportedByBroker
from seamark.errors import DecodeError
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.frames import decode_response
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seamark.wire.schema.schema import Message

API_VERSIONS_NEWEST = ApiVersionsRequest.versions.last


class BrokerVersions:
    """The ranges that one broker announced."""

    __slots__ = ("_ranges", "address", "features")

    def __init__(self, address: str, response: ApiVersionsResponse) -> None:
        self.address = address
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        # Finalized levels, such as {"group.version": 1}; empty from brokers that do not tell.
        self.features = {each.name: each.max_version_level for each in response.finalized_features}

    def has(self, request: type[Message], least: int = 0) -> bool:
        """Whether the broker speaks the API in version ``least`` or a newer one that this build has too."""
        return self._newest(request, least, None) is not None

    def choose(self, request: type[Message], *, least: int = 0, most: int | None = None) -> int:
        """The newest version within both ranges and the caller's; UnsupportedByBroker if there is none."""
        found = self._newest(request, least, most)
        if found is None:
            first, last = self._own(request, least, most)
            name = request.__name__.removesuffix("Request")
            offered = self._ranges.get(request.api_key)
            shown = None if offered is None else f"{offered[0]}-{offered[1]}"
            raise UnsupportedByBroker(self.address, name, f"{first}-{last}", shown)
        return found

    def _newest(self, request: type[Message], least: int, most: int | None) -> int | None:
        offered = self._ranges.get(request.api_key)
        if offered is None:
            return None
        first, last = self._own(request, least, most)
        version = min(last, offered[1])
        return version if version >= max(first, offered[0]) else None

    @staticmethod
    def _own(request: type[Message], least: int, most: int | None) -> tuple[int, int]:
        last = request.versions.last if most is None else min(most, request.versions.last)
        return max(least, request.versions.first), last


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
        raise PeerProtocolError(address, f"the answer to the first request is not Kafka's ({error})") from error
    return response


def next_hello_version(response: ApiVersionsResponse, address: str) -> int | None:
    """The version to ask again with, or None if the answer stands."""
    code = error_code(response.error_code)
    if code is ErrorCode.NONE:
        return None
    if code is not ErrorCode.UNSUPPORTED_VERSION:
        raise PeerProtocolError(address, f"the broker answered the first request with {code.name}")
    # Brokers before 2.4 answer with an empty list.
    offered = [each.max_version for each in response.api_keys if each.api_key == ApiVersionsRequest.api_key]
    return min(offered[0], API_VERSIONS_NEWEST - 1) if offered else 0

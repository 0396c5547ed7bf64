"""What stands in front of every request and response: which API, which version, whose answer this is (A12, A14).

The header has versions of its own, fixed by the message behind it. Two rules are Kafka's exceptions: an ApiVersions
response always has header version 0, since the client cannot know yet what the broker speaks, and the client id is
never written compactly, so that any broker can log it. Header version 0 is ControlledShutdown 0 alone.
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, field, int16, int32, string

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7


class RequestHeader(Message, versions="0-2", flexible="2+"):
    request_api_key: int = field(int16)
    request_api_version: int = field(int16)
    correlation_id: int = field(int32)
    client_id: str | None = field(string, versions="1+", nullable="1+", flexible="none", ignorable=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = field(int32)


def request_header_version(request: type[Message], version: int) -> int:
    if version in request.flexible:
        return 2
    return 0 if request.api_key == CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(response: type[Message], version: int) -> int:
    return 1 if version in response.flexible and response.api_key != API_VERSIONS else 0

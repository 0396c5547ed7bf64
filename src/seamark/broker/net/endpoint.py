"""An API as the broker serves it: its handler, the versions it is served in, and how its requests are decoded."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from seamark.broker.config.settings import BrokerSettings
from seamark.broker.sharing.turns import Wait
from seamark.wire.protocol.apis import Api
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import request_header_version
from seamark.wire.schema.codec import Decoder, decode_in_steps, decoder
from seamark.wire.schema.schema import Message, Versions

# What one request may hold in its arrays, all of them together. Handling an element takes some microseconds, during
# which nobody else is served: this many take less than a quarter of a second. An API that serves others meanwhile, and
# whose clients do name that many partitions, takes more (``MAX_ELEMENTS`` of its handler).
MAX_REQUEST_ELEMENTS = 1 << 15

Frame = bytes | memoryview
# What a handler does for an answer, a little at a time; the result is the answer, or None if it comes later.
AnswerSteps = Generator[Wait | None, None, Message | None]

_FETCH = 1


class Handler(Protocol):
    """What a module in ``handlers`` defines.

    ``API``      Kafka's name of the API
    ``VERSIONS`` the versions it is advertised in; ``VERSIONS_WITH_ZOOKEEPER``, where a handler has it, those of a
                 broker that keeps offsets of old clients in ZooKeeper
    ``handle``   answers at once, or returns None and lets ``context.reply`` be called later; where there may be much
                 to do, it returns a generator of steps instead, whose result is one of these
    ``refuse``   the response in which everything that was asked for has this error
    ``HAS_LONG_ANSWERS``  optional: a short request may be answered at length, so answers are written in slices
    ``MAX_ELEMENTS``      optional: what a request may hold, if not ``MAX_REQUEST_ELEMENTS``
    """

    API: str
    VERSIONS: str
    # Of the node (``seamark.broker.api.services``), the request and its context.
    handle: Callable[[Any, Any, Any], Message | AnswerSteps | None]
    refuse: Callable[[Any, int, ErrorCode], Message]


class Endpoint:
    """An API as this broker serves it."""

    __slots__ = (
        "_decoders",
        "api",
        "handler",
        "has_long_answers",
        "header_versions",
        "max_elements",
        "used",
        "versions",
    )

    def __init__(self, api: Api, handler: Handler, versions: Versions) -> None:
        self.api = api
        self.handler = handler
        self.versions = versions
        self.has_long_answers: bool = getattr(handler, "HAS_LONG_ANSWERS", False)
        self.max_elements: int = getattr(handler, "MAX_ELEMENTS", MAX_REQUEST_ELEMENTS)
        self.header_versions = {version: request_header_version(api.request, version) for version in versions}
        self._decoders: dict[int, Decoder] = {}
        # The versions in which it was asked for.
        self.used: set[int] = set()

    def decode(self, frame: Frame, position: int, version: int) -> tuple[Any, int]:
        decode = self._decoders.get(version)
        if decode is None:
            decode = self._decoders[version] = decoder(self.api.request, version)
        return decode(frame, position, len(frame), self.max_elements)

    def decode_in_steps(self, frame: Frame, position: int, version: int) -> Generator[None, None, Message]:
        return decode_in_steps(self.api.request, frame, position, version, self.max_elements)

    def record_bytes(self, settings: BrokerSettings) -> int:
        """How many bytes of records an answer may hold."""
        largest: int = settings["fetch.max.bytes"] + settings["message.max.bytes"] if self.api.key == _FETCH else 0
        return largest

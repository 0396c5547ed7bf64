"""How a caller hands a request to the network: as a message, or as what makes one for the negotiated version.

Most messages are written alike in all versions; a few carry the same question in different fields, and only the
connection knows which version it will speak.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from seamark.wire.schema.schema import Message


class VersionedRequest(NamedTuple):
    """A request whose form depends on the version that is negotiated."""

    request: type[Message]
    make: Callable[[int], Message]


Request = Message | VersionedRequest

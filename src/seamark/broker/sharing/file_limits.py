"""How many files the process may have open (RLIMIT_NOFILE), and what of that connections may take.

Every connection is an open file, and so is each log that was written to lately: an eighth of the files at most, and as
many again while a sync of theirs is under way. The last descriptors are kept for logs: whoever connects when no others
are left is turned away, so that what is produced and committed can always be stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource

# A connection costs a few kilobytes of memory as well; more than these must be asked for.
MOST_CONNECTIONS_BY_DEFAULT = 10_000
_LEAST_RESERVED, _MOST_RESERVED = 16, 256
_LEAST_SEGMENTS, _MOST_SEGMENTS = 4, 4096
_NO_LIMIT = 1 << 30


def open_file_limit() -> int:
    """How many files this process may have open; a descriptor's number is always below it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def connection_descriptors() -> int:
    """The descriptors below this number may be connections; those from here on are for logs."""
    limit = open_file_limit()
    return limit - max(_LEAST_RESERVED, min(_MOST_RESERVED, limit // 16))


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    """The number of a transport's socket; -1 for one that has none."""
    socket = transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())


def default_max_connections() -> int:
    """What ``max.connections`` is where nobody says: half of the files, so that the rest is there for logs."""
    return max(1, min(MOST_CONNECTIONS_BY_DEFAULT, open_file_limit() // 2))


def most_open_segments() -> int:
    """How many segments of all logs together keep their file open between two uses."""
    return max(_LEAST_SEGMENTS, min(_MOST_SEGMENTS, open_file_limit() // 8))


def raise_open_file_limit() -> None:
    """Take as many as the system's administrator allows, as Java does; not for a process that embeds a broker."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems say that there is no limit and have one all the same; then it stays as it is.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

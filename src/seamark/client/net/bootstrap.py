"""The first broker: bootstrap addresses as nodes, and the race for the first one that can be used.

Candidates are tried in order, the next one as soon as the one before has failed or has taken a moment too long: a
broker that swallows connections costs a fraction of a second, not a timeout. Bootstrap nodes have negative ids, as in
Kafka's client.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from seamark.client.cluster_view import Node
from seamark.client.config.checks import host_and_port
from seamark.client.config.config import ClientConfig
from seamark.client.errors import AuthenticationFailed, ConnectionFailed, NetworkError, NoBrokerAvailable, TlsFailed
from seamark.client.net.connection import Connection
from seamark.client.net.node import NodeConnection
from seamark.client.timing import Deadline

# How long a connection may take before the next address is tried beside it: far above a round trip around the world.
_HEAD_START_S = 0.5


async def bootstrap_nodes(config: ClientConfig) -> tuple[Node, ...]:
    """A node for each bootstrap address, or for each name behind it where client.dns.lookup asks for that."""
    addresses: list[tuple[str, int]] = []
    for address in config.bootstrap_servers:
        host, port = host_and_port(address)
        if config.client_dns_lookup == "use_all_dns_ips":
            addresses.append((host, port))
            continue
        addresses += [(name, port) for name in await _canonical_names(host, port)]
    return tuple(Node(-1 - number, host, port) for number, (host, port) in enumerate(dict.fromkeys(addresses)))


async def _canonical_names(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        # The name is tried as it is, and the failure reported where it happens.
        return [host]
    names: list[str] = []
    for entry in entries:
        try:
            name, _ = await loop.getnameinfo((str(entry[4][0]), port))
        except OSError:
            name = str(entry[4][0])
        names.append(name)
    return names


async def first_ready(
    candidates: Sequence[NodeConnection], deadline: Deadline, causes: Callable[[], dict[str, str]]
) -> Connection:
    """The first connection that opens; NoBrokerAvailable with every address's reason when none does in time.

    ConnectionFailed if all of them are closed on our own account: whoever asks again is given others.
    """
    waiting: dict[asyncio.Task[Connection], NodeConnection] = {}
    untried = list(candidates)
    failed: list[NodeConnection] = []
    while True:
        # A connection that was closed meanwhile is not tried again: the client was closed, or let go of the address.
        untried = [each for each in untried if not each.is_closed]
        if untried:
            each = untried.pop(0)
            waiting[each.start()] = each
        if not waiting:
            raise ConnectionFailed(candidates[0].node.address, "the connection was closed while it was being made")
        done, _ = await asyncio.wait(
            waiting,
            timeout=deadline.at_most(_HEAD_START_S) if untried else deadline.remaining,
            return_when=asyncio.FIRST_COMPLETED,
        )
        # In the order of the candidates, whichever of them a set of tasks would give first.
        for task in [each for each in waiting if each in done]:
            each = waiting.pop(task)
            if task.cancelled():
                continue
            error = task.exception()
            if error is None:
                return task.result()
            if isinstance(error, AuthenticationFailed | TlsFailed):
                raise error
            if not isinstance(error, NetworkError):
                raise error
            failed.append(each)
        if deadline.is_over:
            raise NoBrokerAvailable(causes(), deadline.seconds)
        if not waiting and not untried:
            # Each attempt waits for its own backoff before it connects.
            untried, failed = failed, []

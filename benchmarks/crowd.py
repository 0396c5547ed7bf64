"""Many clients that do next to nothing: connections held open, and members that heartbeat in their groups.

``python -m benchmarks.crowd BOOTSTRAP CONNECTIONS MEMBERS GROUPS`` prints ``ready`` once every member is in a stable
group and every other connection has had an answer. It holds them until its standard input ends, and says how many
heartbeats were answered and how often a member had to join again after that line: a crowd that was thrown out would
make a benchmark look good.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from itertools import count
from typing import Any

from seamark.wire.protocol.consumer_protocol import Subscription, encode_subscription
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from seamark.wire.schema.schema import Message

HEARTBEAT_SECONDS = 3.0  # Kafka's default of heartbeat.interval.ms
SESSION_MS = 45_000
REBALANCE_IN_PROGRESS = 27
# As many connections are opened at once as fit into a listener's backlog.
OPENED_AT_ONCE = 50

_SUBSCRIPTION = encode_subscription(Subscription(topics=["bench"]))


class Peer:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count()

    @classmethod
    async def open(cls, bootstrap: str) -> Peer:
        host, _, port = bootstrap.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, request: Message, version: int, response: type[Message]) -> Any:
        self._writer.write(encode_request(request, version, next(self._numbers), "crowd"))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_response(response, await self._reader.readexactly(size), version)[1]


class Member:
    """One consumer of a group, as far as the coordinator can tell."""

    def __init__(self, peer: Peer, group: str) -> None:
        self._peer = peer
        self._group = group
        self._member_id = ""
        self._generation = -1
        self.is_stable = False
        self.joins = 0
        self.heartbeats = 0

    async def live(self) -> None:
        while True:
            answer = await self._peer.ask(FindCoordinatorRequest(key=self._group), 1, FindCoordinatorResponse)
            if answer.error_code == 0:
                break
            await asyncio.sleep(0.2)
        while True:
            if await self._join():
                await self._heartbeat()
            else:
                await asyncio.sleep(0.1)

    async def _join(self) -> bool:
        self.is_stable = False
        self.joins += 1
        protocol = JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)
        request = JoinGroupRequest(
            group_id=self._group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=60_000,
            member_id=self._member_id, protocol_type="consumer", protocols=[protocol],
        )  # fmt: skip
        joined = await self._peer.ask(request, 3, JoinGroupResponse)
        if joined.error_code:
            return False
        self._member_id, self._generation = joined.member_id, joined.generation_id
        shares = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"") for each in joined.members]
        sync = SyncGroupRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id, assignments=shares
        )
        return (await self._peer.ask(sync, 2, SyncGroupResponse)).error_code == 0

    async def _heartbeat(self) -> None:
        """Until the group rebalances."""
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        while True:
            answer = await self._peer.ask(request, 2, HeartbeatResponse)
            if answer.error_code:
                if answer.error_code != REBALANCE_IN_PROGRESS:
                    self._member_id = ""
                return
            self.is_stable = True
            self.heartbeats += 1
            await asyncio.sleep(HEARTBEAT_SECONDS)


async def hold(bootstrap: str, connections: int, members: int, groups: int) -> None:
    peers: list[Peer] = []
    for first in range(0, connections, OPENED_AT_ONCE):
        together = min(OPENED_AT_ONCE, connections - first)
        peers += await asyncio.gather(*(Peer.open(bootstrap) for _ in range(together)))
    for first in range(0, connections, OPENED_AT_ONCE):
        asked = [
            peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse) for peer in peers[first : first + OPENED_AT_ONCE]
        ]
        await asyncio.gather(*asked)
    crowd = [Member(peer, f"crowd-{number % groups}") for number, peer in enumerate(peers[:members])]
    lives = [asyncio.create_task(member.live()) for member in crowd]
    while not all(member.is_stable for member in crowd):
        for life in lives:
            if life.done():
                life.result()
        await asyncio.sleep(0.1)
    # A member that is stable may not yet know that another one has joined since.
    await asyncio.sleep(HEARTBEAT_SECONDS + 0.5)
    joins, heartbeats = sum(member.joins for member in crowd), sum(member.heartbeats for member in crowd)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    lost = sum(life.done() for life in lives)
    told = {
        "lost": lost,
        "joined_again": sum(member.joins for member in crowd) - joins,
        "heartbeats": sum(member.heartbeats for member in crowd) - heartbeats,
    }
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], *map(int, sys.argv[2:5])))

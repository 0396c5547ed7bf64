"""What a handler may use of the node that serves its request.

A ``Node`` is one, and so is what tests make of a cluster in memory: a handler needs no listener and no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from seamark.broker.clock import BrokerClock, Soon, Timers
from seamark.broker.cluster.cluster import Cluster
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.groups.runtime import GroupRuntime
from seamark.broker.groups.zookeeper import ZookeeperOffsets
from seamark.broker.log.partition import Partition
from seamark.broker.net.endpoint import Endpoint
from seamark.broker.net.fetch_sessions import FetchSessions
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.sharing.fetch_budget import FetchBudget
from seamark.broker.sharing.reading_thread import OneAtATime, ReadingThread
from seamark.broker.sharing.turns import Turns
from seamark.errors import SeamarkError


class Services(Protocol):
    """All but ``id``, ``groups`` and ``fetch_sessions`` are shared by the nodes of a broker."""

    @property
    def id(self) -> int: ...

    @property
    def groups(self) -> GroupRuntime: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def security(self) -> Gatekeeper: ...

    @property
    def endpoints(self) -> Mapping[int, Endpoint]: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def loop(self) -> Soon: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def fetch_budget(self) -> FetchBudget: ...

    @property
    def reading_thread(self) -> ReadingThread: ...

    @property
    def unfolding(self) -> OneAtATime: ...

    @property
    def zookeeper_offsets(self) -> ZookeeperOffsets | None: ...

    def note_failure(self, place: str, error: SeamarkError) -> None: ...

    def note_storage_failure(self, partition: Partition, error: SeamarkError) -> None: ...

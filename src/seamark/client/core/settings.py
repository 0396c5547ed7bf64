"""What a consumer's cores are configured with: the keys of Kafka's configuration that they read.

Kept apart from the client's configuration so that a simulation can write one down without brokers and certificates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from seamark.assignors import Assignor, load_assignors
from seamark.client.core.positions.messages import READ_UNCOMMITTED
from seamark.client.core.positions.reset import ResetPolicy
from seamark.errors import ConfigError


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    auto_commit: bool = True

    def __post_init__(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                self.heartbeat_interval_ms,
                f"must be less than session.timeout.ms, which is {self.session_timeout_ms}",
            )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """``group_id`` of the membership is empty for a consumer without a group."""

    membership: MembershipSettings
    assignors: tuple[Assignor, ...] = field(default_factory=load_assignors)
    reset_policy: ResetPolicy = field(default_factory=lambda: ResetPolicy("latest"))
    auto_commit_interval_ms: int = 5_000
    isolation_level: int = READ_UNCOMMITTED
    excludes_internal_topics: bool = True

    @property
    def has_group(self) -> bool:
        return bool(self.membership.group_id)

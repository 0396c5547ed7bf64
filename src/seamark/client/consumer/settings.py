"""What a consumer's cores are configured with, read from the client's configuration."""

from __future__ import annotations

from seamark.assignors import load_assignors
from seamark.client.config.config import ConsumerConfig
from seamark.client.core.positions.messages import READ_COMMITTED, READ_UNCOMMITTED
from seamark.client.core.positions.reset import ResetPolicy
from seamark.client.core.settings import ConsumerSettings, MembershipSettings


def settings_of(config: ConsumerConfig) -> ConsumerSettings:
    strategy = config.partition_assignment_strategy
    return ConsumerSettings(
        membership=MembershipSettings(
            group_id=config.group_id or "",
            instance_id=config.group_instance_id,
            rack=config.client_rack or None,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            max_poll_interval_ms=config.max_poll_interval_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            request_timeout_ms=config.request_timeout_ms,
            auto_commit=config.enable_auto_commit,
        ),
        # Without a group nobody assigns: an empty strategy is refused by the first poll that needs one (C2).
        assignors=load_assignors(strategy) if strategy else (),
        reset_policy=ResetPolicy.parse(config.auto_offset_reset),
        auto_commit_interval_ms=config.auto_commit_interval_ms,
        isolation_level=READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED,
        excludes_internal_topics=config.exclude_internal_topics,
    )

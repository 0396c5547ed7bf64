"""Questions about many groups, put to the coordinator a few groups at a time, so that others are served in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from seamark.broker.groups.runtime import GroupRuntime
from seamark.coordinator.commands import DescribeGroups
from seamark.coordinator.replies import DescribedGroup, DescribeReply

# How many groups are asked about at once.
GROUPS_PER_STEP = 10


def described(
    groups: GroupRuntime, group_ids: Sequence[str | None], *, missing_is_error: bool
) -> Iterator[DescribedGroup]:
    """The description of each group, in their order."""
    for start in range(0, len(group_ids), GROUPS_PER_STEP):
        kept = _Kept()
        groups.submit(DescribeGroups(group_ids[start : start + GROUPS_PER_STEP], missing_is_error), kept)
        # A description waits for nothing.
        assert isinstance(kept.reply, DescribeReply)
        yield from kept.reply.groups


class _Kept:
    reply: Any = None

    def reply_value(self, value: Any) -> None:
        self.reply = value

"""The group coordinator and offsets store as a machine without I/O: decide, append, apply.

``Coordinator`` routes to one ``Shard`` per offsets partition. A call takes a command and the time and returns
``Effects``: replies, records to append, timers. ``replay`` is the only thing that changes what is stored, and a reply
leaves only after its records are stored. Nothing in here reads a clock, a socket or a random number.
"""

from seamark.coordinator.commands import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
    SyncGroup,
)
from seamark.coordinator.effects import Append, Arm, Cancel, Effects, LogLine
from seamark.coordinator.placement import partition_for
from seamark.coordinator.routing import Coordinator
from seamark.coordinator.settings import Settings, setting_keys
from seamark.coordinator.shard import Shard, Status

__all__ = [
    "Append",
    "Arm",
    "Cancel",
    "CommitOffsets",
    "Coordinator",
    "DeleteGroups",
    "DeleteOffsets",
    "DescribeGroups",
    "Effects",
    "FetchOffsets",
    "ForgetTopics",
    "Heartbeat",
    "JoinGroup",
    "LeaveGroup",
    "LeavingMember",
    "ListGroups",
    "LogLine",
    "OffsetToCommit",
    "Settings",
    "Shard",
    "Status",
    "SyncGroup",
    "partition_for",
    "setting_keys",
]

"""Moving committed offsets between stores, groups and clusters: planned, shown, made, verified, and taken back.

    header = MoveHeader(Kind.ZOOKEEPER_TO_KAFKA, source.place, target.place, now_ms, "--all")
    aiming = SameLogs(ClusterLogs(admin, "the cluster"))
    plan = write_move(path, header, plan_groups(source, target, groups, aiming, Choices()), aiming.topic_ids)
    with Journal(plan, now_ms=now_ms) as journal:
        Mover(plan, source, target, journal, clock).run()

Plans are streamed, so the number of groups is not bounded by memory; a journal makes them resumable at any point.
"""

from __future__ import annotations

from seamark.moves.account import GroupOutcome, Summary
from seamark.moves.aims import Aim, Aiming, ClusterLogs, SameLogs
from seamark.moves.applying import Mover
from seamark.moves.cluster_aims import OtherCluster
from seamark.moves.errors import MoveBegun, MoveIncomplete, MoveInterrupted, MoveInUse
from seamark.moves.journal import Journal, Progress
from seamark.moves.move import GroupMove, How, Kind, MoveHeader, MoveTotals, PartitionMove, Place
from seamark.moves.move_file import MoveFile, open_move, write_move
from seamark.moves.planning import Choices, check_names, plan_groups
from seamark.moves.read_back import Verified, verify
from seamark.moves.returning import Returner
from seamark.moves.sides import Side

__all__ = [
    "Aim",
    "Aiming",
    "Choices",
    "ClusterLogs",
    "GroupMove",
    "GroupOutcome",
    "How",
    "Journal",
    "Kind",
    "MoveBegun",
    "MoveFile",
    "MoveHeader",
    "MoveInUse",
    "MoveIncomplete",
    "MoveInterrupted",
    "MoveTotals",
    "Mover",
    "OtherCluster",
    "PartitionMove",
    "Place",
    "Progress",
    "Returner",
    "SameLogs",
    "Side",
    "Summary",
    "Verified",
    "check_names",
    "open_move",
    "plan_groups",
    "verify",
    "write_move",
]

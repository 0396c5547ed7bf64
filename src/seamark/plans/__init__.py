"""Changes of committed offsets as plans: shown first, applied once, verified, and undone if wrong.

    state = read_state(admin, {"billing": partitions})
    plan = build_plan(state, {"billing": {partition: 42}}, made_by="my script", now_ms=now_ms())
    write_plan(path, plan)
    for row in preview(plan, state).rows: ...
    apply(admin, plan, now_ms=now_ms, undo_path=undo_path_of(path)).raise_if_incomplete()

Plan, undo and preview are pure; ``read_state`` and ``apply`` talk to the cluster through an admin client.
"""

from __future__ import annotations

from seamark.plans.applying import Applied, Outcome, apply
from seamark.plans.clamping import Clamped, clamp_plan, clamp_to_log
from seamark.plans.cluster_reading import read_state
from seamark.plans.decisions import Standing, Standings, check
from seamark.plans.errors import (
    BadPlan,
    GroupInUse,
    OutsideLog,
    PlanError,
    PlanIncomplete,
    PlanRefused,
    PlanStale,
    TopicChanged,
    WrongCluster,
)
from seamark.plans.plan import Change, ClusterState, GroupChanges, GroupState, LogRange, Plan, TopicState, build_plan
from seamark.plans.plan_file import read_plan, read_undo, undo_path_of, write_plan
from seamark.plans.plan_text import digest_of, parse_plan, text_of
from seamark.plans.preview import PlanRow, Preview, preview
from seamark.plans.undoing import UndoRecord, plan_undo

__all__ = [
    "Applied",
    "BadPlan",
    "Change",
    "Clamped",
    "ClusterState",
    "GroupChanges",
    "GroupInUse",
    "GroupState",
    "LogRange",
    "Outcome",
    "OutsideLog",
    "Plan",
    "PlanError",
    "PlanIncomplete",
    "PlanRefused",
    "PlanRow",
    "PlanStale",
    "Preview",
    "Standing",
    "Standings",
    "TopicChanged",
    "TopicState",
    "UndoRecord",
    "WrongCluster",
    "apply",
    "build_plan",
    "check",
    "clamp_plan",
    "clamp_to_log",
    "digest_of",
    "parse_plan",
    "plan_undo",
    "preview",
    "read_plan",
    "read_state",
    "read_undo",
    "text_of",
    "undo_path_of",
    "write_plan",
]

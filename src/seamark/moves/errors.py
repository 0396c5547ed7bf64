"""Why a move of offsets was refused or did not come to its end; ``str()`` of each is one sentence.

    SeamarkError
    +- PlanError
       +- MoveBegun            the plan was applied in part before: going on is asked for, never assumed
       +- MoveInUse            another process works with the same plan
       +- MoveInterrupted      a side stopped answering in the middle; the journal knows how far it got
       +- MoveIncomplete       it came to its end, and some groups are not as planned

A damaged plan or journal is a ``BadPlan``, a plan for other clusters ``WrongCluster``; both are of ``seamark.plans``.
"""

from __future__ import annotations

from pathlib import Path

from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.plans.errors import PlanError


class MoveBegun(PlanError):
    """A journal lies beside the plan."""

    def __init__(self, plan: Path, moved: int, groups: int) -> None:
        super().__init__(
            f"{plan} was already applied, groups moved: {moved} of {groups}; nothing was changed; "
            "continue with --resume, or undo with rollback"
        )
        self.moved = moved
        self.groups = groups


class MoveInUse(PlanError):
    """The journal is locked."""

    def __init__(self, journal: Path) -> None:
        super().__init__(f"{journal} is in use by another process: wait until it has ended; nothing was changed")


class MoveInterrupted(PlanError):
    """``cause`` ended it; what was changed up to then is in the journal."""

    def __init__(self, cause: SeamarkError, how_far: str, remedy: str) -> None:
        super().__init__(f"interrupted: {cause}; {how_far}; once it is reachable again, {remedy}")
        self.cause = cause


class MoveIncomplete(PlanError):
    """Not every group is where the plan wants it; each was reported with its reason."""

    def __init__(self, left: int, groups: int, what: str) -> None:
        super().__init__(f"{left} of {counted(groups, 'group')} {what}: the reasons are in the report")
        self.left = left
        self.groups = groups

"""Sets a group back through a plan, as ``seamark groups reset --to shift:-N --plan FILE --apply`` does."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.monitor.targets import Target, aim
from seamark.plans import apply, build_plan, preview, read_state, undo_path_of, write_plan

if TYPE_CHECKING:
    from seamark.client import Admin


@dataclass(frozen=True, slots=True)
class Rewound:
    """``repeated`` records will be read again, in ``partitions`` partitions."""

    partitions: int
    repeated: int


def rewind(admin: Admin, group: str, records: int, path: Path) -> Rewound:
    """Set every partition of the group back by so many records; PlanError if any of it cannot be done."""
    state = read_state(admin, {group: []})
    wanted = aim(Target("shift", -records), group, state.committed[group], state).wanted
    plan = build_plan(
        state,
        {group: wanted},
        made_by="seamark quickstart",
        why=f"shows a rewind by {records} records",
        now_ms=int(time.time() * 1000),
    )
    write_plan(path, plan)
    rows = preview(plan, state).rows
    apply(admin, plan, undo_path=undo_path_of(path)).raise_if_incomplete()
    return Rewound(len(rows), sum(row.repeated or 0 for row in rows))

"""What happened so far, counted: nothing that is dropped, refused or repeated goes uncounted."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Tally:
    """``spared``: not run again thanks to an earlier commit's map. ``late``: ended after their partition had gone.

    ``lost``: at most once, committed and dropped with their partition before their handler had begun, or parked.
    ``unowned``: polled of a partition that is not ours or is going. ``foreign_metadata``: commits whose metadata was
    somebody else's, damaged or too new, and was left alone.
    """

    polled: int = 0
    done: int = 0
    failed: int = 0
    retried: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    spared: int = 0
    late: int = 0
    lost: int = 0
    unowned: int = 0
    foreign_metadata: int = 0

    def as_dict(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

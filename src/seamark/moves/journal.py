"""What was done of a move, on disk before and after it is done: the memory that survives ``kill -9``.

Beside the plan lies its journal, JSON lines that are only ever appended and synced. A group is written down as
``begun`` before its first offset is changed and as ``moved`` after its offsets were read back; a rollback writes
``begun`` again and then ``returned``. So whatever was touched is in the journal, and what is ``moved`` is never touched
again: its consumers may have started on the target and gone on.

The last line may be torn by a crash; it is then as if it had not been written, which is safe for every state. While a
process works with a journal it holds a lock on it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Self

from seamark.fsync import sync_directory
from seamark.moves.errors import MoveInUse
from seamark.moves.move_file import MoveFile
from seamark.plans.errors import BadPlan, PlanError
from seamark.plans.plan_text import time_text

FORMAT = "seamark.move-journal"
VERSION = 1


class Progress(IntEnum):
    """How far one group is."""

    UNTOUCHED = 0
    BEGUN = 1
    MOVED = 2
    RETURNED = 3


class Journal:
    """The journal of one plan, locked; ``existed`` says whether there was one already."""

    def __init__(self, plan: MoveFile, *, now_ms: int) -> None:
        self.path = plan.journal_path
        self._states = bytearray(plan.totals.groups)
        try:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PlanError(f"{self.path} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise MoveInUse(self.path) from None
        try:
            self.existed = self._load(plan)
            if not self.existed:
                self._append({"format": FORMAT, "version": VERSION, "plan": plan.digest, "at": time_text(now_ms)})
                sync_directory(self.path.parent)
        except BaseException:
            self.close()
            raise

    def state(self, index: int) -> Progress:
        return Progress(self._states[index])

    def count(self, state: Progress) -> int:
        return self._states.count(state)

    @property
    def is_untouched(self) -> bool:
        return self.count(Progress.UNTOUCHED) == len(self._states)

    def note(self, state: Progress, indexes: Iterable[int], *, now_ms: int) -> None:
        """Write down that groups came to a state; when this returns it is on disk."""
        listed = list(indexes)
        if not listed:
            return
        self._append({"at": time_text(now_ms), "state": state.name.lower(), "groups": listed})
        for index in listed:
            self._states[index] = state

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, content: dict[str, Any]) -> None:
        line = json.dumps(content, separators=(",", ":")).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._handle, line) :]
            os.fsync(self._handle)
        except OSError as error:
            raise PlanError(f"{self.path} cannot be written: {error.strerror}; the move was stopped there") from None

    def _load(self, plan: MoveFile) -> bool:
        """Read what is there; whether there was anything. A torn last line is cut off."""
        whole = 0
        with os.fdopen(os.dup(self._handle), "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                content = self._parsed(line, number)
                if number == 1:
                    self._check_head(content, plan)
                else:
                    self._take(content, number)
                whole += len(line)
        os.ftruncate(self._handle, whole)
        os.lseek(self._handle, whole, os.SEEK_SET)
        return whole > 0

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            content = json.loads(line)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise BadPlan(self.path, f"the journal is damaged: line {number} is not a JSON object")
        return content

    def _check_head(self, content: dict[str, Any], plan: MoveFile) -> None:
        if content.get("format") != FORMAT:
            raise BadPlan(self.path, f"not the journal of a move: the format must be {FORMAT!r}")
        if content.get("version") != VERSION:
            raise BadPlan(
                self.path, f"a journal of version {content.get('version')!r}; this release reads version {VERSION}"
            )
        if content.get("plan") != plan.digest:
            raise BadPlan(self.path, f"not the journal of {plan.path.name}: move the file away")

    def _take(self, content: dict[str, Any], number: int) -> None:
        groups, name = content.get("groups"), content.get("state")
        states = {state.name.lower(): state for state in Progress}
        if name not in states or not isinstance(groups, list):
            raise BadPlan(self.path, f"the journal is damaged: line {number} has no state or no groups")
        for index in groups:
            if not isinstance(index, int) or not 0 <= index < len(self._states):
                raise BadPlan(self.path, f"the journal is damaged: line {number} names group {index!r}")
            self._states[index] = states[name]

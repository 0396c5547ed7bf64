"""Plan and undo files on disk: written whole or not at all, read with a bound.

A file is written beside its place, synced and renamed, so that a crash leaves the old file or the new one.
The undo record of ``move.json`` is ``move.undo.json``.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from seamark.fsync import sync_directory
from seamark.plans.errors import BadPlan, PlanError
from seamark.plans.plan import Plan
from seamark.plans.plan_text import one, parse_plan, text_of
from seamark.plans.undoing import UndoRecord, parse_undo, text_of_undo

# A plan with a million partitions takes about 250 MB; what is larger was not made here.
_MOST_BYTES = 512 << 20


def undo_path_of(path: Path) -> Path:
    """Where the undo record of a plan file is."""
    if not path.name:
        raise BadPlan(path, "not a plan: a directory")
    return path.with_name(f"{path.name.removesuffix('.json')}.undo.json")


def write_plan(path: Path, plan: Plan) -> None:
    """Write a plan; a file that is there already is never replaced, since it may be the one to undo."""
    if path.exists():
        raise PlanError(f"{path} already exists: choose another name for the plan, or move the file away")
    _write(path, text_of(plan))


def read_plan(path: Path) -> Plan:
    """The plan in a file; BadPlan if it is not a plan, was edited, or has a newer format."""
    return parse_plan(_read(path, "plan"), path)


def write_undo(path: Path, record: UndoRecord) -> None:
    """Write or renew the undo record of one plan; PlanError if the file is that of another."""
    if path.exists() and read_undo(path).plan != record.plan:
        raise PlanError(f"{path} is the undo record of another plan: move the file away")
    _write(path, text_of_undo(record))


def read_undo(path: Path) -> UndoRecord:
    """The undo record in a file, with the same errors as ``read_plan``."""
    return parse_undo(_read(path, "undo record"), path)


def _read(path: Path, thing: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise BadPlan(path, f"no such {thing}") from None
    except OSError as error:
        raise BadPlan(path, f"the {thing} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise BadPlan(path, f"not {one(thing)}: larger than {_MOST_BYTES >> 20} MB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadPlan(path, f"not {one(thing)}: not a text file") from None


def _write(path: Path, text: str) -> None:
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None

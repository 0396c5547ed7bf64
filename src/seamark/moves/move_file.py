"""Plans of moves on disk: JSON lines, so that thousands of groups are written and read without holding them.

    line 1       what is moved from where to where, format and version
    line 2 …     one group each, its number in the file being how the journal calls it
    last line    totals, the ids of the topics, and a SHA-256 over all bytes before and these totals

A plan is written beside its place, synced and then given its name: it exists whole or not at all. It is checked from
end to end when it is opened, before anything is believed. Secrets have no place in it: it knows addresses, not client
settings.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from seamark.client import Offset
from seamark.client.records import LARGEST_OFFSET
from seamark.counts import counted
from seamark.errors import UsageError
from seamark.fsync import sync_directory
from seamark.json_fields import no_field_twice
from seamark.moves.move import GroupMove, Kind, MoveHeader, MoveTotals, PartitionMove, Place
from seamark.plans.errors import BadPlan, PlanError
from seamark.plans.plan_text import Fields, digest, time_text
from seamark.readable_text import readable_json
from seamark.topic_partition import TopicPartition

FORMAT = "seamark.move"
VERSION = 1
_INT = 2**31 - 1
# A group with a million partitions takes about 150 MB; a longer line was not written here.
_LONGEST_LINE = 256 << 20


def write_move(
    path: Path,
    header: MoveHeader,
    groups: Iterable[GroupMove],
    topic_ids: Callable[[], Mapping[str, str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> MoveFile:
    """Write a plan as its groups come; ``topic_ids`` is asked after the last. A file that exists is never replaced."""
    taken = PlanError(f"{path} already exists: choose another name for the plan, or move the file away")
    if path.exists():
        raise taken
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            _write_lines(file, header, groups, topic_ids, progress)
            file.flush()
            os.fsync(file.fileno())
        _give_name(Path(name), path)
        sync_directory(path.parent)
    except FileExistsError:
        raise taken from None
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()
    return open_move(path)


def _give_name(file: Path, path: Path) -> None:
    try:
        # Unlike a rename, a link does not replace what another process has made meanwhile.
        os.link(file, path)
    except FileExistsError:
        raise
    except OSError:
        # Not every file system has links.
        file.replace(path)


def _write_lines(
    file: IO[bytes],
    header: MoveHeader,
    groups: Iterable[GroupMove],
    topic_ids: Callable[[], Mapping[str, str]],
    progress: Callable[[int, int], None] | None,
) -> None:
    hashed = hashlib.sha256()

    def write(content: dict[str, Any]) -> None:
        line = readable_json(content, separators=(",", ":")).encode() + b"\n"
        hashed.update(line)
        file.write(line)

    write(_header_content(header))
    counts = dict.fromkeys(("groups", "offsets", "changes", "groups_with_problems"), 0)
    for group in groups:
        write(_group_content(group))
        counts["groups"] += 1
        counts["offsets"] += len(group.moves)
        counts["changes"] += len(group.changes)
        counts["groups_with_problems"] += bool(group.problems)
        if progress is not None:
            progress(counts["groups"], counts["offsets"])
    end = {"end": {**counts, "topics": dict(topic_ids())}}
    write(end | {"digest": _digest(hashed.hexdigest(), end)})


def _digest(of_lines: str, end: dict[str, Any]) -> str:
    return digest({"lines": of_lines, **end})


class MoveFile:
    """A plan on disk that was found whole; ``digest`` names its content."""

    def __init__(self, path: Path, header: MoveHeader, totals: MoveTotals, digest_text: str) -> None:
        self.path = path
        self.header = header
        self.totals = totals
        self.digest = digest_text

    def __iter__(self) -> Iterator[GroupMove]:
        """The groups in the file's order."""
        with self.path.open("rb") as file:
            file.readline(_LONGEST_LINE)
            for number in range(self.totals.groups):
                fields = Fields(_parsed(file.readline(_LONGEST_LINE), self.path, number + 2), self.path)
                yield _group(fields)

    @property
    def journal_path(self) -> Path:
        return self.path.with_name(f"{self.path.name.removesuffix('.json').removesuffix('.jsonl')}.journal")


def open_move(path: Path) -> MoveFile:
    """The plan in a file; BadPlan if it is not one, was edited or cut short, or is of a newer release."""
    try:
        with path.open("rb") as file:
            return _open(path, file)
    except FileNotFoundError:
        raise BadPlan(path, "no such plan") from None
    except OSError as error:
        raise BadPlan(path, f"the plan cannot be read: {error.strerror}") from None


def _open(path: Path, file: IO[bytes]) -> MoveFile:
    hashed = hashlib.sha256()
    first = file.readline(_LONGEST_LINE)
    content = _parsed(first, path, 1)
    if content.get("format") != FORMAT:
        raise BadPlan(path, f"not the plan of a move: the format must be {FORMAT!r}")
    if content.get("version") != VERSION or isinstance(content["version"], bool):
        raise BadPlan(
            path, f"the plan of a move of version {content.get('version')!r}; this release reads version {VERSION}"
        )
    header = _header(Fields(content, path))
    last, groups = first, 0
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        hashed.update(last)
        last, groups = line, groups + 1
    end = _parsed(last, path, groups + 1)
    written = end.pop("digest", None)
    if "end" not in end:
        raise BadPlan(path, "the plan is truncated: its last line is missing")
    if written != _digest(hashed.hexdigest(), end):
        raise BadPlan(path, "the plan was changed after it was made: its digest does not match its content")
    fields = Fields(end, path).mapping("end")
    topics = fields.mapping("topics")
    numbers = [fields.number(name, 2**62) for name in ("groups", "offsets", "changes", "groups_with_problems")]
    totals = MoveTotals(
        numbers[0], numbers[1], numbers[2], numbers[3], {name: topics.text(name) for name in topics.names}
    )
    if totals.groups != groups - 1:
        raise BadPlan(path, f"the plan should have {counted(totals.groups, 'group')}, it has {groups - 1}")
    return MoveFile(path, header, totals, str(written))


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        content = json.loads(line, object_pairs_hook=no_field_twice)
    except UsageError as error:
        raise BadPlan(path, f"not the plan of a move: line {number}: {error}") from None
    except (ValueError, RecursionError):
        raise BadPlan(path, f"not the plan of a move, or truncated: line {number} is not a JSON object") from None
    if not isinstance(content, dict):
        raise BadPlan(path, f"not the plan of a move: line {number} is not a JSON object")
    return content


def _header_content(header: MoveHeader) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": str(header.kind),
        "from": _place_content(header.source),
        "to": _place_content(header.target),
        "created_at": time_text(header.created_ms),
        "why": header.why,
        "overlap_ms": header.overlap_ms,
    }


def _header(fields: Fields) -> MoveHeader:
    kind = fields.text("kind")
    if kind not in list(Kind):
        raise fields.bad("kind", f"is not one of {', '.join(Kind)}: {kind!r}")
    return MoveHeader(
        Kind(kind),
        _place(fields.mapping("from")),
        _place(fields.mapping("to")),
        fields.time("created_at"),
        fields.text("why"),
        fields.number("overlap_ms", LARGEST_OFFSET),
    )


def _place_content(place: Place) -> dict[str, str]:
    return {"store": place.store, "address": place.address, "cluster_id": place.cluster_id}


def _place(fields: Fields) -> Place:
    return Place(fields.text("store"), fields.text("address"), fields.text("cluster_id"))


def _group_content(group: GroupMove) -> dict[str, Any]:
    content: dict[str, Any] = {"group": group.group, "to_group": group.to_group}
    if group.problem:
        content["problem"] = group.problem
    if group.strays:
        content["strays"] = list(group.strays)
    content["moves"] = [_move_content(move) for move in group.moves]
    return content


def _move_content(move: PartitionMove) -> dict[str, Any]:
    content: dict[str, Any] = {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "from": _offset_content(move.source),
        "before": _offset_content(move.before),
        "after": _offset_content(move.after),
        "how": move.how,
    }
    content |= {name: text for name, text in (("note", move.note), ("problem", move.problem)) if text}
    return content if move.repeated is None else content | {"repeated": move.repeated}


def _offset_content(offset: Offset | None) -> int | dict[str, Any] | None:
    """A bare number where there is nothing else to say: most of a large plan is numbers."""
    if offset is None:
        return None
    if not offset.metadata and offset.leader_epoch < 0:
        return offset.offset
    return {"offset": offset.offset, "metadata": offset.metadata, "leader_epoch": offset.leader_epoch}


def _group(fields: Fields) -> GroupMove:
    has = set(fields.names)
    strays = fields.get("strays") if "strays" in has else []
    if not isinstance(strays, list) or not all(isinstance(stray, str) for stray in strays):
        raise fields.bad("strays", "is not a list of strings")
    return GroupMove(
        fields.text("group"),
        fields.text("to_group"),
        tuple(_move(item) for item in fields.items("moves")),
        fields.text("problem") if "problem" in has else "",
        tuple(strays),
    )


def _move(fields: Fields) -> PartitionMove:
    has = set(fields.names)
    return PartitionMove(
        TopicPartition(fields.text("topic"), fields.number("partition", _INT)),
        _offset(fields, "from"),
        _offset(fields, "before"),
        _offset(fields, "after"),
        fields.text("how"),
        fields.text("note") if "note" in has else "",
        fields.text("problem") if "problem" in has else "",
        fields.number("repeated", LARGEST_OFFSET) if "repeated" in has else None,
    )


def _offset(fields: Fields, name: str) -> Offset | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        return Offset(fields.number(name, LARGEST_OFFSET))
    offset = fields.mapping(name)
    return Offset(
        offset.number("offset", LARGEST_OFFSET), offset.text("metadata"), offset.number("leader_epoch", _INT, least=-1)
    )

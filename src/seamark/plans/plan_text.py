"""Plans as text: JSON with a format name, a version and a digest over everything else.

The digest is SHA-256 over the content in one fixed form (sorted keys, no blanks), so a file may be reformatted but not
edited. It guards against accidents and half-edited files; it is no signature.

Invariant: ``parse_plan(text_of(plan)) == plan``, and whatever is not a whole, untouched plan of a known version is a
``BadPlan`` that says what is wrong with it. Passwords have no place in a plan: it is made from offsets, not from the
options that the client was given.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from seamark.client import Offset
from seamark.client.records import LARGEST_OFFSET
from seamark.errors import UsageError
from seamark.json_fields import no_field_twice
from seamark.plans.errors import BadPlan
from seamark.plans.plan import Change, GroupChanges, Plan
from seamark.topic_partition import TopicPartition

FORMAT = "seamark.plan"
VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT = 2**31 - 1


def digest_of(plan: Plan) -> str:
    """The digest of a plan's content."""
    return digest(_content(plan))


def text_of(plan: Plan) -> str:
    """The plan as its file has it, with the digest; ``parse_plan`` reads it."""
    return sealed(_content(plan))


def parse_plan(text: str, source: Path | str = "plan") -> Plan:
    """The plan in a text; ``source`` is what an error calls it."""
    return plan_from(opened(text, source, FORMAT, "plan", VERSION), source)


def content_of(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values, with its digest: for files that hold one within."""
    content = _content(plan)
    return content | {"digest": digest(content)}


def plan_from(content: dict[str, Any], source: Path | str) -> Plan:
    """The plan in JSON values whose digest has been checked."""
    fields = Fields(content, source)
    undoes = fields.get("undoes")
    topic_ids = fields.mapping("topics")
    plan = Plan(
        cluster_id=fields.text("cluster_id"),
        created_ms=fields.time("created_at"),
        made_by=fields.text("made_by"),
        why=fields.text("why"),
        topic_ids={topic: topic_ids.text(topic) for topic in topic_ids.names},
        groups=tuple(_group(item) for item in fields.items("groups")),
        undoes=None if undoes is None else fields.text("undoes"),
    )
    names = [group.group for group in plan.groups]
    if names != sorted(set(names)):
        raise fields.bad("groups", "has a group twice or is not sorted")
    return plan


def _group(fields: Fields) -> GroupChanges:
    changes = tuple(_change(item) for item in fields.items("changes"))
    partitions = [change.partition for change in changes]
    if partitions != sorted(set(partitions)):
        raise fields.bad("changes", "has a partition twice or is not sorted")
    return GroupChanges(fields.text("group"), changes)


def _change(fields: Fields) -> Change:
    partition = TopicPartition(fields.text("topic"), fields.number("partition", _INT))
    return Change(partition, _committed(fields, "before"), _committed(fields, "after"))


def _committed(fields: Fields, name: str) -> Offset | None:
    if fields.get(name) is None:
        return None
    offset = fields.mapping(name)
    return Offset(
        offset.number("offset", LARGEST_OFFSET), offset.text("metadata"), offset.number("leader_epoch", _INT, least=-1)
    )


def _content(plan: Plan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "cluster_id": plan.cluster_id,
        "created_at": time_text(plan.created_ms),
        "made_by": plan.made_by,
        "why": plan.why,
        "undoes": plan.undoes,
        "topics": dict(plan.topic_ids),
        "groups": [
            {
                "group": group.group,
                "changes": [
                    {
                        "topic": change.partition.topic,
                        "partition": change.partition.partition,
                        "before": _offset_content(change.before),
                        "after": _offset_content(change.after),
                    }
                    for change in group.changes
                ],
            }
            for group in plan.groups
        ],
    }


def _offset_content(offset: Offset | None) -> dict[str, Any] | None:
    if offset is None:
        return None
    return {"offset": offset.offset, "metadata": offset.metadata, "leader_epoch": offset.leader_epoch}


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of JSON values as hexadecimal text, whatever order or layout they were written in."""
    fixed = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(fixed.encode()).hexdigest()


def sealed(content: dict[str, Any]) -> str:
    """Content as the text of a file, its digest at the end."""
    return json.dumps(content | {"digest": digest(content)}, indent=1) + "\n"


def opened(text: str, source: Path | str, format_name: str, thing: str, version: int) -> dict[str, Any]:
    """The content of a text made by ``sealed``, checked for format, version and digest in this order."""
    try:
        content = json.loads(text, object_pairs_hook=no_field_twice)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadPlan(source, f"not {one(thing)}, or truncated: invalid JSON at {where}") from None
    except UsageError as error:
        raise BadPlan(source, f"not {one(thing)} : {error}") from None
    except (RecursionError, ValueError):
        raise BadPlan(source, f"not {one(thing)}: its JSON cannot be read") from None
    if not isinstance(content, dict) or content.get("format") != format_name:
        raise BadPlan(source, f"not {one(thing)}: the format must be {format_name!r}")
    if content.get("version") != version or isinstance(content["version"], bool):
        raise BadPlan(
            source,
            f"{one(thing)} of version {content.get('version')!r}; this release of Seamark reads version {version}",
        )
    written = content.pop("digest", None)
    if written != digest(content):
        raise BadPlan(source, f"the {thing} was changed after it was made: its digest does not match its content")
    return content


def one(thing: str) -> str:
    return f"an {thing}" if thing[0] in "aeiou" else f"a {thing}"


def time_text(time_ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Fields:
    """Reads the fields of a JSON object; errors name the file and the way to the field."""

    def __init__(self, content: dict[str, Any], source: Path | str, path: str = "") -> None:
        self._content = content
        self._source = source
        self._path = path

    @property
    def names(self) -> list[str]:
        return list(self._content)

    def get(self, name: str) -> Any:
        if name not in self._content:
            raise self.bad(name, "is missing")
        return self._content[name]

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise self.bad(name, f"is not a string: {value!r}")
        return value

    def number(self, name: str, most: int, least: int = 0) -> int:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.bad(name, f"is not an integer from {least} to {most}: {value!r}")
        return value

    def time(self, name: str) -> int:
        value = self.text(name)
        try:
            moment = datetime.fromisoformat(value)
            return (moment - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, TypeError):
            raise self.bad(name, f"is not a time: {value!r}") from None

    def mapping(self, name: str) -> Fields:
        value = self.get(name)
        if not isinstance(value, dict):
            raise self.bad(name, "is not an object")
        return Fields(value, self._source, f"{self._path}{name}.")

    def items(self, name: str) -> list[Fields]:
        value = self.get(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.bad(name, "is not a list of objects")
        return [Fields(item, self._source, f"{self._path}{name}[{place}].") for place, item in enumerate(value)]

    def bad(self, name: str, reason: str) -> BadPlan:
        return BadPlan(self._source, f"{self._path}{name} {reason}")

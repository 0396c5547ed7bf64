"""JSON objects of files that people may edit: a field that is written twice is refused, not read as its last value."""

from __future__ import annotations

from typing import Any

from seamark.errors import UsageError


def no_field_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The ``object_pairs_hook`` of ``json.loads``; UsageError names the field."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise UsageError(f"field {next(name for name in names if names.count(name) > 1)!r} appears twice")
    return fields

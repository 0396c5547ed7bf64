"""The offsets lake: ``__consumer_offsets`` and the coordinators' answers as tables of what was committed and when.

``run`` fills a lake in batches, ``stream`` keeps it fresh; ``find`` looks for what went wrong, ``write_report`` makes
a page of it, ``as_of`` and ``diff`` read the past. ``Lake`` is the directory that they publish to. Needs
``seamark[spark]``; importing this package loads neither Spark nor Arrow: names are loaded when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.spark.lake.errors import LakeJobFailed, TopicNotReadable
    from seamark.spark.lake.fill.job import RunSummary, run
    from seamark.spark.lake.fill.stream import LakeStream, stream
    from seamark.spark.lake.findings.job import find
    from seamark.spark.lake.report.report import write as write_report
    from seamark.spark.lake.tables.lake import Lake, LakeError
    from seamark.spark.lake.tables.manifest import Covered, File, Manifest
    from seamark.spark.lake.time_travel import as_of, diff

# Where each name is defined, and what it is called there.
_HOMES = {
    "Covered": ("seamark.spark.lake.tables.manifest", "Covered"),
    "File": ("seamark.spark.lake.tables.manifest", "File"),
    "Lake": ("seamark.spark.lake.tables.lake", "Lake"),
    "LakeError": ("seamark.spark.lake.tables.lake", "LakeError"),
    "LakeJobFailed": ("seamark.spark.lake.errors", "LakeJobFailed"),
    "LakeStream": ("seamark.spark.lake.fill.stream", "LakeStream"),
    "Manifest": ("seamark.spark.lake.tables.manifest", "Manifest"),
    "RunSummary": ("seamark.spark.lake.fill.job", "RunSummary"),
    "TopicNotReadable": ("seamark.spark.lake.errors", "TopicNotReadable"),
    "as_of": ("seamark.spark.lake.time_travel", "as_of"),
    "diff": ("seamark.spark.lake.time_travel", "diff"),
    "run": ("seamark.spark.lake.fill.job", "run"),
    "find": ("seamark.spark.lake.findings.job", "find"),
    "stream": ("seamark.spark.lake.fill.stream", "stream"),
    "write_report": ("seamark.spark.lake.report.report", "write"),
}

__all__ = [
    "Covered",
    "File",
    "Lake",
    "LakeError",
    "LakeJobFailed",
    "LakeStream",
    "Manifest",
    "RunSummary",
    "TopicNotReadable",
    "as_of",
    "diff",
    "find",
    "run",
    "stream",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, called = _HOMES[name]
    return getattr(import_module(home), called)

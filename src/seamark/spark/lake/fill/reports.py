"""What tasks report to the driver, how that becomes the lake's next version, and what a run says about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seamark.counts import counted
from seamark.readable_log import readable_logger
from seamark.spark.lake.errors import TOPIC, LakeJobFailed
from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.manifest import Covered, File

log = readable_logger("seamark.spark")

# The partition under which the sampler's own state is kept: it is none of the topic's.
SAMPLED = -1
# So many kinds of records that cannot be read are told apart in the log.
_REJECTED_KINDS = 5


@dataclass(frozen=True, slots=True)
class Report:
    """What a task has done; ``oldest_ms`` and ``newest_ms`` are times of its records, None where there were none."""

    partition: int
    covered: Covered
    records: int
    oldest_ms: int | None
    newest_ms: int | None
    files: list[tuple[str, File]] = field(default_factory=list)

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_line(cls, line: str) -> Report:
        told = json.loads(line)
        files = [(table, File(**file)) for table, file in told.pop("files")]
        return cls(covered=Covered(**told.pop("covered")), files=files, **told)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has written; ``unknown`` counts groups and partitions that did not answer."""

    time_ms: int
    groups: int
    unknown: int
    files: list[tuple[str, File]]

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_line(cls, line: str) -> Look:
        told = json.loads(line)
        return cls(files=[(table, File(**file)) for table, file in told.pop("files")], **told)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run has added; ``version`` is the lake's after it."""

    records: int
    rows: Mapping[str, int]
    seconds: float
    version: int


def publish_reports(lake: Lake, reports: Sequence[Report], **changed: Any) -> None:
    """Make what the tasks wrote the lake's next version."""
    added: dict[str, list[File]] = {}
    for report in reports:
        for table, file in report.files:
            added.setdefault(table, []).append(file)
    covered = {report.partition: report.covered for report in reports}
    if len(covered) != len(reports):
        raise LakeJobFailed("a partition of the offsets topic was read by two tasks; nothing was published")
    lake.publish(added, covered=covered, **changed)
    if "rejects" in added:
        log.warning("%s", rejects_told(lake.path, added["rejects"]))


def rejects_told(root: Path, files: Iterable[File]) -> str:
    """How many records could not be read, of which kinds, and where the first of them is."""
    import pyarrow.parquet as pq

    kinds: Counter[str] = Counter()
    first: tuple[int, int] | None = None
    for file in files:
        rows = pq.ParquetFile(root / file.path).read(columns=["offsets_partition", "offsets_offset", "reason"])
        for row in rows.column("reason").value_counts().to_pylist():
            # Reasons have numbers out of the record in them: there may be as many as there are records.
            kind = row["values"] if row["values"] in kinds or len(kinds) < _REJECTED_KINDS else "others"
            kinds[kind] += row["counts"]
        least = rows.sort_by([("offsets_partition", "ascending"), ("offsets_offset", "ascending")]).slice(0, 1)
        [place] = zip(*(least.column(name).to_pylist() for name in least.column_names[:2]), strict=True)
        first = place if first is None else min(first, place)
    assert first is not None
    told = "; ".join(f"{count} of them: {kind}" for kind, count in kinds.most_common())
    return (
        f"{counted(kinds.total(), 'record')} of {TOPIC} cannot be decoded and are in the table rejects ({told}); "
        f"the first is in partition {first[0]} at offset {first[1]}"
    )


def summary_of(reports: Sequence[Report], seconds: float, version: int) -> RunSummary:
    rows: dict[str, int] = {}
    for report in reports:
        for table, file in report.files:
            if not table.startswith("state_"):
                rows[table] = rows.get(table, 0) + file.rows
    return RunSummary(sum(report.records for report in reports), rows, seconds, version)

"""The batch that a coordinator's records are written in; a commit that is repeated is written from a template."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.coordinator.offsets.commit_patterns import RepeatedRecords
from seamark.coordinator.storing.records import OffsetCommitted, Record
from seamark.coordinator.storing.stored import to_bytes
from seamark.wire.offsets.offsets_batch import SHORT_DELTAS, OffsetsBatch, RecordsTemplate


class GroupBatch(OffsetsBatch):
    __slots__ = ()

    commit_type = OffsetCommitted

    def to_bytes(self, record: Record) -> tuple[bytes, bytes | None]:
        return to_bytes(record)

    def add(self, records: Sequence[Record]) -> bool:
        """Add records, all or none; False if there is no room for them beside those that are there.

        Raises EncodeError, and adds nothing, if one of them cannot be written.
        """
        if type(records) is RepeatedRecords and self.count + len(records) <= SHORT_DELTAS:
            pattern = records.pattern
            template: RecordsTemplate | None = pattern.stored_form
            if template is None:
                template = RecordsTemplate(len(pattern.keys), pattern.records_of, self.encode_record)
                pattern.stored_form = template
            return self.add_again(template, records.offsets, records.commit_ms)
        return self.add_records(records)

"""Kafka's rule for read_committed: which batches of a fetched run were written by aborted transactions.

A Fetch answer lists the aborted transactions that reach into its records: producer and first offset. A producer's
transactional batches are left out from that offset on, up to the marker that ends the transaction. The walk has a
state, so each batch must be shown once, in order. Whether open transactions are read at all is the broker's matter: it
sends nothing beyond the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.wire.records import RecordSlices, decode_control_marker
from seamark.wire.records.record_batch import BatchHeader, Buffer


class AbortedBatches:
    """The filter for the records of one Fetch answer."""

    __slots__ = ("_open", "_to_come")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        # Latest first: the next to begin is the last of the list.
        self._to_come = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def copy(self) -> AbortedBatches:
        made = AbortedBatches(())
        made._to_come = list(self._to_come)
        made._open = set(self._open)
        return made

    def drops(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Take note of the batch, and say whether its records are to be left out."""
        if header.producer_id < 0:
            return False
        while self._to_come and self._to_come[-1][1] <= header.last_offset:
            self._open.add(self._to_come.pop()[0])
        if header.is_control:
            if header.producer_id in self._open and _is_abort(buffer, position, header):
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open


def _is_abort(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    # The marker is the first; whatever a hostile batch has behind it is not looked at.
    records = RecordSlices(buffer, position, header, verify=False).read(1, 0)
    return bool(records) and decode_control_marker(records[0]).kind == "abort"

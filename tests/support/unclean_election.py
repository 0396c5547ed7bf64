"""An unclean election on the embedded broker: the end of a partition's log is lost and a new leader epoch begins."""

from __future__ import annotations

from seamark import Broker
from seamark.wire.records.record_batch import scan_batches


def elect_uncleanly(broker: Broker, topic: str, partition: int, end: int) -> None:
    """The new leader's log ends at ``end``, which must be where a batch begins."""
    cluster = broker._server.cluster

    def elect() -> None:
        found = cluster.partition(topic, partition)
        kept = bytes(found.log.read(0, 1 << 30, end_offset=end))
        found.log.delete()
        found._log = None
        found.epochs = type(found.epochs)()
        for header, position in scan_batches(kept):
            found.epochs.begin(header.partition_leader_epoch, header.base_offset)
            batch = kept[position : position + header.size_bytes]
            found.log.append(batch, now_ms=0, leader_epoch=header.partition_leader_epoch)
        assert found.log_end == end
        cluster.move_leader(found, 0)

    broker._call(elect)

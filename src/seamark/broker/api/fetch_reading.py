"""Reading partitions for a fetch: which records, or which error, each one gives, within the limits of the request.

Limits are soft in one place, as in Kafka: the first batch of the first partition that has one is given however large
it is, so that a consumer never stands still before a large record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.api.leader_hints import current_leader_of
from seamark.broker.log.partition import Partition
from seamark.broker.net.fetch_sessions import FetchedPartition
from seamark.storage.errors import CorruptBatch, LogError, OffsetOutOfRange, TornTail
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.fetch import (
    FetchResponseCurrentLeader,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
)
from seamark.wire.records.record_batch import Buffer, scan_batches

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

READ_COMMITTED = 1
LEADER_HINTS_SINCE = 12
# A client of this replica id reads past the high watermark, to look at what is there.
DEBUGGING_CONSUMER = -2
# More is not read of one partition at a time, whatever the client asks for: a read cannot be interrupted.
MOST_OF_A_PARTITION_BYTES = 8 << 20


class FetchRead:
    """What one pass over the partitions of a fetch gave."""

    __slots__ = ("byte_count", "is_final", "is_shortened", "left", "moved", "outcomes", "partitions")

    def __init__(self, max_bytes: int) -> None:
        # Whether less may be given than the client asks for, because others hold too much.
        self.is_shortened = False
        # How many bytes may still be given.
        self.left = max_bytes
        self.outcomes: list[tuple[FetchedPartition, FetchResponsePartition]] = []
        # The partitions that can give more later.
        self.partitions: list[Partition] = []
        self.moved: list[Partition] = []
        self.byte_count = 0
        # An error or a divergence is told at once, however few bytes there are.
        self.is_final = False

    def shorten(self, room_bytes: int) -> None:
        """Give no more than that from here on."""
        if room_bytes < self.left:
            self.left = room_bytes
            self.is_shortened = True


class PartitionReader:
    """Reads for one request; made once, used for each pass."""

    __slots__ = ("_context", "_isolation", "_node", "_replica_id", "_version")

    def __init__(self, node: Services, context: RequestContext, isolation_level: int, replica_id: int) -> None:
        self._node = node
        self._context = context
        self._version = context.version
        self._isolation = isolation_level
        self._replica_id = replica_id

    def read(self, wanted: list[FetchedPartition], max_bytes: int, room_bytes: int) -> FetchRead:
        """Read all partitions in their order."""
        read = FetchRead(max_bytes)
        read.shorten(room_bytes)
        for each in wanted:
            self.add(read, each)
        return read

    def add(self, read: FetchRead, wanted: FetchedPartition) -> None:
        """Read one more partition."""
        found = self._find(wanted)
        if isinstance(found, ErrorCode):
            read.is_final = True
            read.outcomes.append((wanted, failed_partition(wanted.index, found)))
            return
        code = self._epoch_error(found, wanted)
        if found.leader != self._node.id:
            # A client that knows an older epoch than this is told so, one that knows none that it is wrong here.
            self._fail(read, wanted, code or ErrorCode.NOT_LEADER_OR_FOLLOWER, found)
            return
        if code:
            self._fail(read, wanted, code, found)
            return
        outcome = self._read_one(found, wanted, read.left, must_give=read.byte_count == 0)
        if outcome.error_code:
            read.is_final = True
        else:
            read.partitions.append(found)
            size = len(outcome.records or b"")
            read.byte_count += size
            read.left = max(0, read.left - size)
            if outcome.diverging_epoch.end_offset >= 0:
                read.is_final = True
        read.outcomes.append((wanted, outcome))

    def _find(self, wanted: FetchedPartition) -> Partition | ErrorCode:
        cluster = self._node.cluster
        if isinstance(wanted.topic, bytes):
            topic = cluster.topics_by_id.get(wanted.topic)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = cluster.topics.get(wanted.topic)
        name = wanted.topic if topic is None else topic.name
        assert isinstance(name, str)
        if not self._context.may(Operation.READ, ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = None if topic is None else topic.partition(wanted.index)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else partition

    def _epoch_error(self, partition: Partition, wanted: FetchedPartition) -> ErrorCode:
        return epoch_error(partition, wanted.current_leader_epoch)

    def _fail(self, read: FetchRead, wanted: FetchedPartition, code: ErrorCode, partition: Partition) -> None:
        read.is_final = True
        outcome = _unread_partition(wanted.index, code)
        if self._version >= LEADER_HINTS_SINCE and code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            outcome.current_leader = FetchResponseCurrentLeader(**current_leader_of(partition))
            read.moved.append(partition)
        read.outcomes.append((wanted, outcome))

    def _read_one(
        self, partition: Partition, wanted: FetchedPartition, left: int, *, must_give: bool
    ) -> FetchResponsePartition:
        high_watermark = partition.high_watermark
        outcome = FetchResponsePartition(
            partition_index=wanted.index,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=partition.log_start,
            aborted_transactions=[] if self._isolation == READ_COMMITTED else None,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            epoch, end = partition.epochs.end_of(wanted.last_fetched_epoch, partition.log_end)
            if end < 0:
                return _unread_partition(wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                outcome.diverging_epoch = FetchResponseDivergingEpoch(epoch=epoch, end_offset=end)
                return outcome
        offset = wanted.fetch_offset
        if not partition.log_start <= offset <= partition.log_end:
            return _unread_partition(wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        end_offset = partition.log_end if self._replica_id == DEBUGGING_CONSUMER else high_watermark
        limit = min(left, wanted.max_bytes, MOST_OF_A_PARTITION_BYTES)
        if offset >= end_offset or (limit <= 0 and not must_give):
            return outcome
        try:
            records = partition.log.read_view(offset, max(limit, 0), end_offset=end_offset)
        except OffsetOutOfRange:
            return _unread_partition(wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        except LogError as error:
            self._node.note_storage_failure(partition, error)
            is_damaged = isinstance(error, CorruptBatch | TornTail)
            # As Kafka: a disk that fails may be served by another broker, a damaged batch stays damaged.
            code = ErrorCode.CORRUPT_MESSAGE if is_damaged else ErrorCode.KAFKA_STORAGE_ERROR
            return _unread_partition(wanted.index, code)
        if must_give or len(records) <= limit:
            outcome.records = records
        return outcome


def ends_early(records: Buffer, end_offset: int) -> bool:
    """Did a read stop before the end, as it does where a segment ends? Then there is nothing to wait for."""
    next_offset = -1
    for header, _ in scan_batches(records):
        next_offset = header.next_offset
    return 0 <= next_offset < end_offset


def epoch_error(partition: Partition, client_epoch: int) -> ErrorCode:
    """Compare the leader epoch that a client knows, -1 for none, with the partition's."""
    if client_epoch < 0 or client_epoch == partition.leader_epoch:
        return ErrorCode.NONE
    if client_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def _unread_partition(index: int, code: ErrorCode) -> FetchResponsePartition:
    """A partition that was found and gave an error: as in Kafka its list of transactions is null and not empty."""
    outcome = failed_partition(index, code)
    outcome.aborted_transactions = None
    return outcome


def failed_partition(index: int, code: ErrorCode) -> FetchResponsePartition:
    return FetchResponsePartition(
        partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=[], records=b""
    )

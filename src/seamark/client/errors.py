"""What the client raises: classes are remedies, codes are data, and ``str()`` of each is one sentence.

    SeamarkError
    +- ClientError
       +- NetworkError                   the conversation failed, not the request
       |  +- ConnectionFailed            could not be made, or ended with requests in flight: retry elsewhere or later
       |  |  +- TlsFailed
       |  +- RequestTimedOut             the broker did not answer in time
       |  +- NoBrokerAvailable           none of the known addresses could be used
       |  +- AuthenticationFailed        who we are was not accepted: retrying is useless
       |  +- UnsupportedByBroker         no version of the API is spoken by both sides
       |  +- PeerProtocolError           the peer answered something that is not Kafka's protocol
       +- OperationTimedOut              the deadline of a whole operation passed
       +- BrokerError                    an error code came back
       |  +- RetryLater  CoordinatorMoved  MemberFenced  Refused
       +- CommitError                    CommitFailed RebalanceInProgress RetriableCommitFailed CommitTimedOut CommitMetadataTooLarge
       +- PositionError                  NoOffsetForPartition OffsetOutOfRange RangeGone
       +- AssignmentUnusable             the group's leader sent something that is no assignment
       +- DeserializationFailed  ConcurrentUse  WakeUp
       +- CorruptRecords                 RecordsTooLarge; what was fetched cannot be read
       +- DeliveryFailed  DeliveryTimedOut  BufferFull  RecordTooLarge     the producer's

All of them survive pickling with their fields, because Spark carries them between processes.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.client.code_meanings import meaning_of
from seamark.counts import counted, shortened
from seamark.errors import DecodeError, OverLimit, SeamarkError, UsageError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code

if TYPE_CHECKING:
    from seamark.wire.records.record_batch import Buffer

# So many causes are told in one sentence.
_TOLD_CAUSES = 3


def _rebuild(cls: type[ClientError], args: tuple[Any, ...], fields: dict[str, Any]) -> ClientError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


class ClientError(SeamarkError):
    """Everything the client raises that is not a mistake in its use."""

    # Whether the same call may succeed later without anything being changed by the caller.
    is_retriable = False
    # For a refused commit: what the broker said of each partition; some of them may have been stored.
    partition_codes: Mapping[TopicPartition, ErrorCode] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class NetworkError(ClientError):
    """The conversation with a broker failed; ``address`` is "host:port"."""

    is_retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class ConnectionFailed(NetworkError):
    """The connection could not be made, or it ended before the answer came."""


class TlsFailed(ConnectionFailed):
    """The encrypted connection could not be agreed on."""

    is_retriable = False


class RequestTimedOut(NetworkError):
    """The broker took the request and did not answer within ``seconds``."""

    def __init__(self, address: str, api: str, seconds: float, hint: str = "") -> None:
        super().__init__(address, f"no response to {api} within {seconds:g} s{hint}")
        self.api = api
        self.seconds = seconds


class NoBrokerAvailable(NetworkError):
    """No known broker could be reached; ``causes`` maps each address to its last failure."""

    def __init__(self, causes: Mapping[str, str], seconds: float | None = None) -> None:
        within = "" if seconds is None else f" within {seconds:g} s"
        reasons = "; ".join(f"{address}: {reason}" for address, reason in causes.items())
        super().__init__(", ".join(causes), f"no broker could be reached{within} ({reasons})")
        self.args = (f"no broker could be reached{within} ({reasons})",)
        self.causes = dict(causes)
        self.seconds = seconds


class AuthenticationFailed(NetworkError):
    """The broker, or we, did not accept the other's identity."""

    is_retriable = False

    def __init__(self, address: str, mechanism: str, reason: str) -> None:
        super().__init__(address, f"authentication with {mechanism} failed: {reason}")
        self.mechanism = mechanism


class UnsupportedByBroker(NetworkError):
    """The broker does not speak the API, or none of the versions that were allowed."""

    is_retriable = False

    def __init__(self, address: str, api: str, wanted: str, offered: str | None) -> None:
        offer = "does not support it" if offered is None else f"supports versions {offered}"
        super().__init__(address, f"{api} versions {wanted} are required, but the broker {offer}")
        self.api = api


class PeerProtocolError(NetworkError):
    """What the peer sent is not an answer of Kafka's protocol."""

    is_retriable = False


class OperationTimedOut(ClientError):
    """The deadline of an operation passed; ``last_error`` is what kept it from succeeding, if anything did."""

    is_retriable = True

    def __init__(self, operation: str, seconds: float, last_error: BaseException | None = None) -> None:
        because = "" if last_error is None else f", last error: {last_error}"
        super().__init__(f"{operation} did not finish within {seconds:g} s{because}")
        self.operation = operation
        self.seconds = seconds
        self.last_error = last_error


class BrokerError(ClientError):
    """A broker answered with an error code; ``subject`` is what the code is about (a topic, a group, a partition).

    Make one with ``broker_error``, which picks the class by remedy.
    """

    def __init__(self, code: ErrorCode, api: str, subject: str, message: str | None = None) -> None:
        text = f"{api} of {subject}: {code.name} ({meaning_of(code)})"
        if message:
            text += f": {shortened(message, 300)}"
        super().__init__(text)
        self.code = code
        self.api = api
        self.subject = subject
        self.message = message


class RetryLater(BrokerError):
    """The broker is not ready for this; the same request may succeed later."""

    is_retriable = True


class CoordinatorMoved(RetryLater):
    """Another broker coordinates the group, or none does yet: look it up again, then retry."""


class MemberFenced(BrokerError):
    """The member's identity or generation is no longer valid: it must join again, or someone took its place."""


class Refused(BrokerError):
    """The broker will not do it; retrying the same request is useless."""


class CommitError(ClientError):
    """Offsets were not committed; ``partitions`` says which, as far as that is known."""

    def __init__(self, reason: str, partitions: Iterable[TopicPartition] = (), group: str | None = None) -> None:
        self.partitions = tuple(partitions)
        self.group = group
        self.reason = reason
        of_group = "" if group is None else f" of group {group!r}"
        what = f" of {_some(self.partitions)}" if self.partitions else ""
        super().__init__(f"commit{what}{of_group} failed: {reason}")


class CommitFailed(CommitError):
    """The group has moved on without this member; what was processed may be processed again by another."""


class RebalanceInProgress(CommitError):
    """The group is rebalancing; poll to take part in it, then commit what is still owned."""

    is_retriable = True


class RetriableCommitFailed(CommitError):
    """An asynchronous commit met an error that a later commit need not meet; it is not retried by itself."""

    is_retriable = True


class CommitTimedOut(CommitError):
    """The commit was not acknowledged in time; it may or may not have been stored."""

    is_retriable = True


class CommitMetadataTooLarge(CommitError):
    """The broker refuses metadata of this size; shorten it."""


class PositionError(ClientError):
    """A partition has no usable position."""

    def __init__(self, text: str, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(text)
        self.partitions = tuple(partitions)


class NoOffsetForPartition(PositionError):
    """There is no committed offset and auto.offset.reset is none."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        named = tuple(partitions)
        super().__init__(f"{_some(named)}: no committed offset, and auto.offset.reset=none forbids a default", named)


class OffsetOutOfRange(PositionError):
    """The position is outside what the partition holds and auto.offset.reset is none; ``offsets`` has the positions."""

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        shown = ", ".join(f"{partition} at {offset}" for partition, offset in offsets.items())
        super().__init__(f"position out of range, and auto.offset.reset=none forbids a reset: {shown}", offsets)
        self.offsets = dict(offsets)


class AssignmentUnusable(ClientError):
    """What ``leader``, the member that leads ``group``, sent as this member's assignment is none.

    Nothing of it is taken, and the next poll joins the group again: another leader may do better.
    """

    is_retriable = True

    def __init__(self, group: str, leader: str, reason: str) -> None:
        name = f"member {shortened(leader)!r}" if leader else "whose member id is not known"
        super().__init__(
            f"group {group!r}: the assignment from the group's leader, {name}, {reason}. It is ignored, and the next "
            "poll joins again. If this continues, stop that member (seamark groups describe shows where it runs), "
            "or use another group.id"
        )
        self.group = group
        self.leader = leader
        self.reason = reason


class DeserializationFailed(ClientError):
    """User code could not read a key or value; ``record`` holds the raw bytes, ``part`` is "key" or "value".

    The position is on the record: seek to ``offset + 1`` to skip it.
    """

    def __init__(self, partition: TopicPartition, offset: int, part: str, reason: str, record: Any = None) -> None:
        super().__init__(f"the {part} of {partition} at offset {offset} cannot be deserialized: {reason}")
        self.partition = partition
        self.offset = offset
        self.part = part
        self.reason = reason
        self.record = record


class ConcurrentUse(UsageError):
    """A consumer was used from two threads at the same time."""


class WakeUp(ClientError):
    """``wakeup()`` was called: the blocking call it interrupted did nothing further."""

    def __init__(self) -> None:
        super().__init__("the call was interrupted by wakeup()")


def broker_error(code: int | ErrorCode, api: str, subject: str, message: str | None = None) -> BrokerError:
    """The error for a code off the wire, of the class whose remedy fits.

    >>> broker_error(16, "OffsetCommit", "group 'g'")
    CoordinatorMoved("OffsetCommit of group 'g': NOT_COORDINATOR (another broker is the coordinator of the group)")
    """
    known = error_code(code)
    return remedy(known)(known, api, subject, message)


def remedy(code: ErrorCode) -> type[BrokerError]:
    """Which class a code is raised as; codes that nothing else claims are refusals."""
    if code in _MOVED:
        return CoordinatorMoved
    if code in _FENCED:
        return MemberFenced
    if code.is_retriable or code in _LATER:
        return RetryLater
    return Refused


def _some(partitions: tuple[TopicPartition, ...]) -> str:
    shown = ", ".join(map(str, partitions[:5]))
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"


_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_FENCED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)
_LATER = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNRELEASED_INSTANCE_ID})


class CorruptRecords(ClientError):
    """The batch at ``offset`` is not what was written, or is not in a format that Kafka's brokers store."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str, remedy: str | None = None) -> None:
        remedy = remedy or f"seek to {offset + 1} or later to skip them"
        super().__init__(
            f"the records of {partition} at offset {offset} cannot be read: {reason}. Poll raises this until you seek: "
            f"{remedy}"
        )
        self.partition = partition
        self.offset = offset
        self.reason = reason


class RecordsTooLarge(CorruptRecords):
    """The batch at ``offset`` is over ``setting``, which bounds what a batch may cost its reader.

    ``next_offset`` is the first one behind the batch, where reading can go on.
    """

    def __init__(self, partition: TopicPartition, offset: int, reason: str, setting: str, next_offset: int) -> None:
        super().__init__(
            partition,
            offset,
            f"their batch exceeds {setting}, which can be increased if you trust the producer: {reason}",
            f"seek to {next_offset}, the end of the batch, to skip it",
        )
        self.setting = setting
        self.next_offset = next_offset


class RangeGone(OffsetOutOfRange):
    """An exact range was asked for, and the partition does not hold this offset of it (any more, or yet)."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__({partition: offset})
        self.args = (f"offset {offset} is not in the log of {partition}: it was deleted, or never written",)


def unreadable(partition: TopicPartition, offset: int, error: DecodeError, records: Buffer) -> CorruptRecords:
    """What to tell of a batch that cannot be read, the first of ``records`` that ends behind the offset."""
    setting = _setting_of(error)
    if setting is None:
        return CorruptRecords(partition, offset, str(error))
    return RecordsTooLarge(partition, offset, error.reason, setting, _end_of_batch(records, offset))


def _setting_of(error: DecodeError) -> str | None:
    if isinstance(error, OverLimit) and error.field.endswith("header_count"):
        return "record.max.headers"
    if isinstance(error, OverLimit) and error.field == "records":
        return "decoded.batch.max.bytes"
    return None


def _end_of_batch(records: Buffer, offset: int) -> int:
    # Only consumers read batches; nobody else who knows these errors has to load how.
    from seamark.wire.records.record_batch import scan_batches

    try:
        return next(header.next_offset for header, _ in scan_batches(records) if header.next_offset > offset)
    except (DecodeError, StopIteration):
        # It was read up to its records, so this does not happen; the next offset is a place to go on from as well.
        return offset + 1


@dataclass(frozen=True, slots=True)
class FailedTo:
    """So many records for a topic were not delivered for one cause; ``error`` is the first of them."""

    topic: str
    count: int
    error: ClientError


class DeliveryFailed(ClientError):
    """Records were refused or given up, and nobody has looked at their deliveries.

    ``count`` of the ``sent`` records that were settled since the last flush; ``failures`` has them by topic and cause,
    the first of which is also the ``__cause__``.
    """

    def __init__(self, failures: Sequence[FailedTo], sent: int) -> None:
        self.failures = tuple(failures)
        self.count = sum(failure.count for failure in failures)
        self.sent = max(sent, self.count)
        causes = [f"{failure.count} to topic {failure.topic!r}: {failure.error}" for failure in self.failures]
        if len(causes) > _TOLD_CAUSES:
            causes[_TOLD_CAUSES:] = [f"and {len(causes) - _TOLD_CAUSES} more topics or causes"]
        what = "record was" if self.sent == 1 else "records were"
        super().__init__(f"{self.count} of {self.sent} {what} not delivered: {'; '.join(causes)}")
        first = self.failures[0].error
        self.is_retriable = all(failure.error.is_retriable for failure in self.failures)
        self.__cause__ = first


class DeliveryTimedOut(ClientError):
    """delivery.timeout.ms passed; the record may or may not have been stored.

    ``last_error`` is what stood in the way.
    """

    is_retriable = True

    def __init__(self, partition: TopicPartition, count: int, seconds: float, last_error: Exception | None) -> None:
        because = "" if last_error is None else f", last error: {last_error}"
        super().__init__(f"{counted(count, 'record')} for {partition} not acknowledged within {seconds:g} s{because}")
        self.partition = partition
        self.seconds = seconds
        self.last_error = last_error


class BufferFull(ClientError):
    """buffer.memory was taken for as long as max.block.ms: records come faster than the brokers take them."""

    is_retriable = True

    def __init__(self, wanted: int, limit: int, seconds: float) -> None:
        super().__init__(f"no memory for {wanted} bytes within {seconds:g} s: buffer.memory={limit} is used up")


class RecordTooLarge(ClientError):
    """The record alone is larger than max.request.size or buffer.memory allows."""

    def __init__(self, topic: str, size: int, key: str, limit: int) -> None:
        super().__init__(f"a record of {size} bytes for topic {topic!r} is larger than {key}={limit}")

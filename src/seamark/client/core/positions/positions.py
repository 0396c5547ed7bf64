"""Where each partition is read from: the committed offset, the reset policy, and whether the leader still agrees.

A pure core over the assignment's phases. ``advance`` asks for what is missing, batched per coordinator and per leader;
answers move partitions on, and a partition that gets READY is fetched. One question per partition is outstanding; an
answer to a question that a seek or a new assignment has overtaken is dropped (terms, F22 to F25, I1, I30).

Positions that are being consumed are touched only by ``caller_is_here``, which poll calls while the caller waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from seamark.client.cluster_view import ClusterView
from seamark.client.core.assignment_state import NO_EPOCH, AssignmentState, PartitionState, Phase, Position
from seamark.client.core.effects import (
    Effect,
    FindCoordinator,
    ForgetCoordinator,
    LogLine,
    RefreshMetadata,
    SendToCoordinator,
    SendToNode,
    StartFetching,
    StopFetching,
    Tickets,
    position_reset_line,
)
from seamark.client.core.fetch_port import FailureKind, FetchFailure
from seamark.client.core.lasting_failures import LastingFailures
from seamark.client.core.positions.messages import (
    Answer,
    OffsetOutcome,
    committed_answers,
    epoch_answers,
    epoch_request,
    list_offsets_request,
    offset_answers,
    partitions_by_leader,
)
from seamark.client.core.positions.reset import LATEST, ResetPolicy
from seamark.client.errors import ClientError, NoOffsetForPartition, OffsetOutOfRange, PositionError, broker_error
from seamark.client.group_offsets import offset_fetch_request
from seamark.client.records import Offset
from seamark.client.timing import ExponentialBackoff, RandomSource
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.list_offsets import ListOffsetsResponse
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchResponse
from seamark.wire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from seamark.wire.schema.schema import Message


class Positions:
    def __init__(
        self,
        assignment: AssignmentState,
        *,
        group_id: str | None,
        policy: ResetPolicy,
        isolation_level: int,
        request_timeout_ms: int,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        tickets: Tickets,
        rng: RandomSource,
        wall_ms: Callable[[], int],
    ) -> None:
        self._assignment = assignment
        self._group_id = group_id
        self._policy = policy
        self._isolation_level = isolation_level
        self._request_timeout_ms = request_timeout_ms
        self._backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, random_source=rng)
        self._tickets = tickets
        self._wall_ms = wall_ms
        self._failures = 0
        self._lasting: LastingFailures[TopicPartition] = LastingFailures()
        self._asked: dict[int, dict[TopicPartition, int]] = {}
        self._effects: list[Effect] = []
        # Raised once, from the next poll; what stays wrong is in the partitions' own lasting error.
        self._error: ClientError | None = None
        self.view = ClusterView()

    # -- asking

    def advance(self, now_ms: int, *, is_coordinator_known: bool) -> None:
        """Ask whatever can be asked now."""
        self._ask_committed(now_ms, is_coordinator_known=is_coordinator_known)
        self._ask_offsets(now_ms)
        self._ask_epochs(now_ms)

    def _waiting_in(self, phase: Phase, now_ms: int) -> list[PartitionState]:
        return [
            state
            for state in self._assignment
            if state.phase is phase and not state.is_held and not state.is_asked and now_ms >= state.retry_at_ms
        ]

    def _ask_committed(self, now_ms: int, *, is_coordinator_known: bool) -> None:
        waiting = self._waiting_in(Phase.UNKNOWN, now_ms)
        if not waiting:
            return
        if self._group_id is None:
            for state in waiting:
                self._no_offset(state)
        elif not is_coordinator_known:
            self._effects.append(FindCoordinator())
        else:
            request = offset_fetch_request({self._group_id: [state.partition for state in waiting]})
            self._effects.append(SendToCoordinator(self._ask(waiting), request, self._request_timeout_ms))

    def _ask_offsets(self, now_ms: int) -> None:
        for node_id, states in self._led(self._waiting_in(Phase.RESET, now_ms), now_ms):
            timestamps = {state.partition: self._timestamp(state) for state in states}
            request = list_offsets_request(timestamps, self._isolation_level, self._request_timeout_ms, self.view)
            self._effects.append(SendToNode(self._ask(states), node_id, request, self._request_timeout_ms))

    def _timestamp(self, state: PartitionState) -> int:
        if state.reset_timestamp is None:
            return self._policy.timestamp(self._wall_ms())
        return state.reset_timestamp

    def _ask_epochs(self, now_ms: int) -> None:
        waiting = []
        for state in self._waiting_in(Phase.VALIDATE, now_ms):
            assert state.position is not None
            epoch = self.view.leader_epoch(state.partition)
            known = state.position.leader_epoch != NO_EPOCH and epoch != NO_EPOCH
            if known or self.view.leader(state.partition) is None:
                waiting.append(state)
            else:
                # Brokers and records without epochs cannot be checked.
                self._ready(state)
        for node_id, states in self._led(waiting, now_ms):
            positions = {state.partition: state.position for state in states if state.position is not None}
            request = epoch_request(positions, self.view)
            self._effects.append(SendToNode(self._ask(states), node_id, request, self._request_timeout_ms))

    def _led(self, states: list[PartitionState], now_ms: int) -> list[tuple[int, list[PartitionState]]]:
        if not states:
            return []
        by_partition = {state.partition: state for state in states}
        led, leaderless = partitions_by_leader(by_partition, self.view)
        if leaderless:
            self._effects.append(RefreshMetadata(frozenset(partition.topic for partition in leaderless)))
            for partition in leaderless:
                by_partition[partition].last_error = self._no_leader(partition)
            self._later([by_partition[partition] for partition in leaderless], now_ms)
        return [(node_id, [by_partition[partition] for partition in partitions]) for node_id, partitions in led.items()]

    def _no_leader(self, partition: TopicPartition) -> ClientError:
        topic = self.view.topics.get(partition.topic)
        if topic is not None and not topic.error and partition.partition not in topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            code = (topic.error if topic is not None else ErrorCode.NONE) or ErrorCode.LEADER_NOT_AVAILABLE
        return broker_error(code, "Metadata", f"partition {partition}")

    def _ask(self, states: Iterable[PartitionState]) -> int:
        ticket = self._tickets.next()
        self._asked[ticket] = {state.partition: state.question for state in states}
        for state in states:
            state.is_asked = True
        return ticket

    # -- answers

    def answered(self, ticket: int, response: Message, now_ms: int) -> bool:
        if ticket not in self._asked:
            return False
        states = self._take_asked(ticket)
        partitions = [state.partition for state in states]
        match response:
            case OffsetFetchResponse():
                assert self._group_id is not None
                answers = committed_answers(self._group_id, response, partitions)
            case ListOffsetsResponse():
                answers = offset_answers(response, partitions)
            case OffsetForLeaderEpochResponse():
                answers = epoch_answers(response, partitions)
            case _:
                raise AssertionError(response)
        self._apply(states, answers, now_ms)
        return True

    def failed(self, ticket: int, error: ClientError, now_ms: int) -> bool:
        if ticket not in self._asked:
            return False
        states = self._take_asked(ticket)
        answers = {}
        for state in states:
            # A coordinator that does not answer is looked up again (F23), a leader may be another by now.
            retry = OffsetOutcome.REDISCOVER if state.phase is Phase.UNKNOWN else OffsetOutcome.RETRY_AND_REFRESH
            answers[state.partition] = Answer(retry if error.is_retriable else OffsetOutcome.RAISE, error=error)
        self._apply(states, answers, now_ms)
        return True

    def _take_asked(self, ticket: int) -> list[PartitionState]:
        """The partitions of a question that still want its answer."""
        states = []
        for partition, question in self._asked.pop(ticket).items():
            state = self._assignment.get(partition)
            if state is not None and state.question == question:
                state.is_asked = False
                states.append(state)
        return states

    def _apply(self, states: list[PartitionState], answers: Mapping[TopicPartition, Answer], now_ms: int) -> None:
        retried: list[PartitionState] = []
        raised: list[PartitionState] = []
        for state in states:
            answer = answers[state.partition]
            state.last_error = answer.error
            if answer.error is None and not state.fruitless_resets:
                self._goes_on(state, now_ms)
            outcome = answer.outcome
            if outcome is OffsetOutcome.NOTHING and state.phase is Phase.RESET and self._timestamp(state) < 0:
                # Every log has a beginning and an end.
                why = "the response contains no offset"
                code = ErrorCode.OFFSET_NOT_AVAILABLE
                state.last_error = broker_error(code, "ListOffsets", f"partition {state.partition}", why)
                outcome = OffsetOutcome.RETRY
            match outcome:
                case OffsetOutcome.FOUND:
                    self._failures = 0
                    self._found(state, answer)
                case OffsetOutcome.NOTHING:
                    self._failures = 0
                    self._nothing(state)
                case OffsetOutcome.RAISE:
                    self._error = answer.error
                    raised.append(state)
                case OffsetOutcome.RETRY:
                    retried.append(state)
                case OffsetOutcome.REDISCOVER:
                    self._effects.append(ForgetCoordinator(str(answer.error)))
                    retried.append(state)
                case OffsetOutcome.RETRY_AND_REFRESH:
                    self._effects.append(RefreshMetadata(frozenset({state.partition.topic})))
                    retried.append(state)
        self._later(retried, now_ms)
        self._later(raised, now_ms, is_raised=True)

    def _goes_on(self, state: PartitionState, now_ms: int) -> None:
        if (line := self._lasting.succeeded(state.partition, now_ms)) is not None:
            fields = (("partition", str(state.partition)),)
            self._effects.append(LogLine("warning", "partition_goes_on", line, fields))

    def _later(self, states: list[PartitionState], now_ms: int, *, is_raised: bool = False) -> None:
        if states:
            self._failures += 1
            self._wait(states, now_ms, self._failures, is_raised=is_raised)

    def _wait(self, states: list[PartitionState], now_ms: int, failures: int, *, is_raised: bool = False) -> None:
        retry_at_ms = now_ms + int(self._backoff.wait_ms(failures))
        for state in states:
            state.retry_at_ms = retry_at_ms
            if not is_raised and (line := self._lasting.failed(state.partition, state.last_error, now_ms)):
                fields = (("partition", str(state.partition)), ("reason", str(state.last_error)))
                self._effects.append(LogLine("warning", "partition_waits", line, fields))

    def _found(self, state: PartitionState, answer: Answer) -> None:
        assert answer.position is not None
        if state.phase is Phase.UNKNOWN:
            self.seek(state, answer.position)
        elif state.phase is Phase.RESET:
            if state.discarded is not None and state.discarded[0].offset != answer.position.offset:
                self._say_reset(state, state.discarded[0], answer.position, state.discarded[1])
            state.discarded = None
            state.position = answer.position
            state.reset_to = answer.position.offset
            self._ready(state)
        elif state.position is not None and answer.position.offset < state.position.offset:
            self._truncated(state, answer.position)
        else:
            self._ready(state)

    def _nothing(self, state: PartitionState) -> None:
        if state.phase is Phase.UNKNOWN:
            self._no_offset(state)
        elif state.phase is Phase.RESET:
            # No record is as young as that: begin behind the last one.
            state.change(Phase.RESET)
            state.reset_timestamp = LATEST
        else:
            self._truncated(state, None)

    def _no_offset(self, state: PartitionState) -> None:
        if self._policy.is_none:
            self._stuck(state, NoOffsetForPartition([state.partition]))
        else:
            self.reset(state, None)

    def _truncated(self, state: PartitionState, divergence: Position | None) -> None:
        assert state.position is not None
        if self._policy.is_none:
            self._stuck(state, LogTruncated(state.partition, state.position, divergence))
        elif divergence is None:
            self._discard(state, f"the leader does not know the position's leader epoch {state.position.leader_epoch}")
        else:
            self._say_reset(
                state, state.position, divergence, "the log was truncated there by an unclean leader election"
            )
            state.position = divergence
            self._ready(state)

    def _discard(self, state: PartitionState, reason: str) -> None:
        """The position is of no use: go where the policy says. The log says it once the new one is known."""
        discarded = state.position
        self.reset(state, None)
        state.discarded = None if discarded is None else (discarded, reason)

    def _say_reset(self, state: PartitionState, before: Position, after: Position, reason: str) -> None:
        self._effects.append(position_reset_line(state.partition, before, after, reason, self._policy.name))

    # -- moving

    def seek(self, state: PartitionState, position: Position) -> None:
        """Read from here, once the leader has confirmed that its log has the record before, if its epoch is known."""
        state.position = position
        state.reset_timestamp = None
        state.change(Phase.VALIDATE)
        self._effects.append(StopFetching((state.partition,)))

    def reset(self, state: PartitionState, timestamp: int | None) -> None:
        """Read from the offset for a timestamp, or from where the policy says."""
        state.position = None
        state.discarded = None
        state.reset_timestamp = timestamp
        state.change(Phase.RESET)
        self._effects.append(StopFetching((state.partition,)))

    def _ready(self, state: PartitionState) -> None:
        assert state.position is not None
        state.change(Phase.READY)
        state.reset_timestamp = None
        state.validated_epoch = self.view.leader_epoch(state.partition)
        self._effects.append(StartFetching(state.partition, *state.position, state.term))

    def _stuck(self, state: PartitionState, error: ClientError) -> None:
        state.change(Phase.STUCK)
        state.lasting_error = error
        self._effects.append(StopFetching((state.partition,)))

    # -- while the caller waits

    def caller_is_here(self, now_ms: int) -> None:
        """Have positions checked whose partition has a new leader: its log may have ended before them."""
        for state in self._assignment:
            if state.fruitless_resets and state.position is not None and state.position.offset != state.reset_to:
                state.fruitless_resets = 0
                self._goes_on(state, now_ms)
            if self._has_new_leader(state):
                assert state.position is not None
                self.seek(state, state.position)

    def _has_new_leader(self, state: PartitionState) -> bool:
        return (
            state.phase is Phase.READY
            and state.position is not None
            and state.position.leader_epoch != NO_EPOCH
            and self.view.leader_epoch(state.partition) > state.validated_epoch
        )

    def fetch_failed(self, failure: FetchFailure, now_ms: int) -> None:
        """What the fetcher met where the position stands."""
        state = self._assignment.get(failure.partition)
        if state is None or state.term != failure.term or state.phase is not Phase.READY:
            return
        if failure.kind is FailureKind.DIVERGED:
            self._truncated(state, failure.position)
        elif failure.kind is FailureKind.OUT_OF_RANGE:
            if self._policy.is_none:
                self._stuck(state, OffsetOutOfRange({failure.partition: failure.position.offset}))
            else:
                self._out_of_range(state, failure.position, now_ms)

    def _out_of_range(self, state: PartitionState, position: Position, now_ms: int) -> None:
        """Go where the policy says; if that is where the fetcher comes from, not without a pause."""
        is_fruitless = state.reset_to == position.offset
        state.fruitless_resets = state.fruitless_resets + 1 if is_fruitless else 0
        self._discard(state, "the position is outside the log (OFFSET_OUT_OF_RANGE)")
        if is_fruitless:
            state.last_error = broker_error(
                ErrorCode.OFFSET_OUT_OF_RANGE, "Fetch", f"{state.partition} at offset {position.offset}"
            )
            self._wait([state], now_ms, state.fruitless_resets)

    @property
    def has_error(self) -> bool:
        return self._error is not None or any(state.lasting_error is not None for state in self._assignment)

    @property
    def wants_caller(self) -> bool:
        return self.has_error or any(self._has_new_leader(state) for state in self._assignment)

    def take_error(self) -> ClientError | None:
        """What poll is to raise: a passing error once, a lasting one each time until a seek."""
        if self._error is not None:
            error, self._error = self._error, None
            return error
        without = [
            state.partition for state in self._assignment if isinstance(state.lasting_error, NoOffsetForPartition)
        ]
        if without:
            return NoOffsetForPartition(without)
        return next((state.lasting_error for state in self._assignment if state.lasting_error is not None), None)

    def is_missing(self) -> bool:
        """K4: is a position being looked up?"""
        return any(
            state.phase in (Phase.UNKNOWN, Phase.RESET, Phase.VALIDATE) and not state.is_held
            for state in self._assignment
        )

    def next_tick_ms(self, now_ms: int) -> int | None:
        return min(
            (
                state.retry_at_ms
                for state in self._assignment
                if state.retry_at_ms > now_ms and state.phase in (Phase.UNKNOWN, Phase.RESET, Phase.VALIDATE)
            ),
            default=None,
        )

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def as_offset(position: Position) -> Offset:
    return Offset(position.offset, "", position.leader_epoch)


class LogTruncated(PositionError):
    """Records that were read are gone and auto.offset.reset is none; ``divergence`` is where the logs part."""

    def __init__(self, partition: TopicPartition, position: Position, divergence: Position | None) -> None:
        where = "at an unknown offset" if divergence is None else f"at offset {divergence.offset}"
        super().__init__(
            f"the log of {partition} was truncated: it differs {where} from what was read up to offset "
            f"{position.offset}, and auto.offset.reset=none forbids an automatic reset",
            (partition,),
        )
        self.position = position
        self.divergence = divergence

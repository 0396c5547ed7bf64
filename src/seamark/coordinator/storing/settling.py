"""How an append is settled: what happens when the log acknowledges, refuses or delays it.

An append is settled once, by ``stored`` or by ``failed`` with a definite code. A timeout (F9) is not an outcome: the
request is answered COORDINATOR_NOT_AVAILABLE, the append stays open, and a late acknowledgement still makes its
records count. Fetches that require stable offsets wait on the newest append of their group (F11).
"""

from __future__ import annotations

from collections.abc import Iterator

from seamark.coordinator.effects import Effects
from seamark.coordinator.membership.members import NEVER_MS
from seamark.coordinator.shard_state import Pending, ShardState
from seamark.coordinator.storing.replay import replay
from seamark.wire.protocol.error_codes import ErrorCode

# F28, as 4.x translates; other codes pass unchanged.
_TRANSLATIONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def translate_append_error(code: ErrorCode) -> ErrorCode:
    """The code a member gets for a code the log gave."""
    return _TRANSLATIONS.get(code, code)


def settle_stored(state: ShardState, ticket: int, now_ms: int, effects: Effects) -> None:
    """Take an acknowledgement; apply it now if every earlier append is settled, else when that is so."""
    in_flight = state.in_flight
    pending = in_flight.get(ticket)
    if pending is None:
        return
    if ticket != state.oldest_ticket:
        pending.is_acknowledged = True
        return
    _apply_from(state, pending, now_ms, effects)


def settle_failed(state: ShardState, ticket: int, code: ErrorCode, now_ms: int, effects: Effects) -> None:
    """Take a refusal; REQUEST_TIMED_OUT leaves the append open."""
    pending = state.in_flight.get(ticket)
    if pending is None:
        return
    if code is ErrorCode.REQUEST_TIMED_OUT:
        _mark_late(state, pending, now_ms, effects)
        return
    state.counters.refused_appends += 1
    del state.in_flight[ticket]
    _point_to_newest(state, pending, ticket)
    pending.on_failed(state, translate_append_error(code), now_ms, effects)
    _release_waiters(state, pending, effects)
    following = _next_in_line(state)
    if following is not None and following.is_acknowledged:
        _apply_from(state, following, now_ms, effects)


def _point_to_newest(state: ShardState, failed: Pending, ticket: int) -> None:
    """Let stable fetches of the groups concerned wait for what is still under way."""
    concerned = {
        group.group_id: group
        for group_id in {record.group_id for record in failed.records}
        if (group := state.groups.get(group_id)) is not None and group.last_ticket == ticket
    }
    for group in concerned.values():
        group.last_ticket = -1
    if concerned:
        for other, pending in state.in_flight.items():
            for record in pending.records:
                waiting_for_it = concerned.get(record.group_id)
                if waiting_for_it is not None:
                    waiting_for_it.last_ticket = max(waiting_for_it.last_ticket, other)


def fire_append_timer(state: ShardState, now_ms: int, effects: Effects) -> None:
    """Answer appends and waiting fetches whose time is over, and arm the timer for the next of them."""
    if now_ms < state.append_timer_ms:
        if state.append_timer_ms != NEVER_MS:
            state.arm_append_timer(state.append_timer_ms, effects)
        return
    state.append_timer_ms = NEVER_MS
    timeout_ms = state.settings.commit_timeout_ms
    for pending in list(state.in_flight.values()):
        if not pending.is_late and pending.decided_ms + timeout_ms <= now_ms:
            _mark_late(state, pending, now_ms, effects)
        if pending.waiters:
            overdue = [waiter for waiter in pending.waiters if waiter.deadline_ms <= now_ms]
            pending.waiters = [waiter for waiter in pending.waiters if waiter.deadline_ms > now_ms]
            for waiter in overdue:
                waiter.give_up(effects)
    earliest_ms = min(_deadlines(state), default=NEVER_MS)
    if earliest_ms < state.append_timer_ms:
        state.arm_append_timer(earliest_ms, effects)


def _deadlines(state: ShardState) -> Iterator[int]:
    for pending in state.in_flight.values():
        if not pending.is_late:
            yield pending.decided_ms + state.settings.commit_timeout_ms
        for waiter in pending.waiters or ():
            yield waiter.deadline_ms


def _mark_late(state: ShardState, pending: Pending, now_ms: int, effects: Effects) -> None:
    if not pending.is_late:
        pending.is_late = True
        pending.on_late(state, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms, effects)


def _apply_from(state: ShardState, pending: Pending, now_ms: int, effects: Effects) -> None:
    """Apply the oldest append, then those behind it whose acknowledgement came early."""
    following: Pending | None = pending
    while following is not None:
        del state.in_flight[state.oldest_ticket]
        state.oldest_ticket += 1
        replay(state.groups, following.records)
        following.on_stored(state, now_ms, effects)
        if following.waiters is not None:
            _release_waiters(state, following, effects)
        following = _next_in_line(state)
        if following is not None and not following.is_acknowledged:
            return


def _next_in_line(state: ShardState) -> Pending | None:
    """The oldest open append; tickets that failed in the middle are skipped."""
    while state.oldest_ticket < state.next_ticket:
        pending = state.in_flight.get(state.oldest_ticket)
        if pending is not None:
            return pending
        state.oldest_ticket += 1
    return None


def _release_waiters(state: ShardState, pending: Pending, effects: Effects) -> None:
    waiters, pending.waiters = pending.waiters, None
    for waiter in waiters or ():
        waiter.release(state, effects)

"""When a partition may be asked for again after an answer that led nowhere: later each time, until one leads somewhere.

A broker that has nothing new holds a request back for fetch.max.wait.ms, so an answer without records normally takes a
while. One that comes at once and has nothing, again and again, would be asked thousands of times in a second.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.client.config.config import ConsumerConfig
from seamark.client.fetch.planning import PartitionFetch
from seamark.client.timing import ExponentialBackoff, now_ms

# Empty answers in a row that may come at once: sessions begin with one, and a throttled broker answers so.
_EMPTY_AT_ONCE = 3


class FetchBackoff:
    """Owned by the I/O loop."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._hasty_ms = config.fetch_max_wait_ms // 2
        # Per node, in a row: requests that failed, and answers that were empty and came too soon for that.
        self._failures: dict[int, int] = {}
        self._hasty: dict[int, int] = {}

    def node_failed(self, node_id: int) -> int:
        """How often in a row."""
        self._failures[node_id] = self._failures.get(node_id, 0) + 1
        return self._failures[node_id]

    def node_answered(self, node_id: int, states: Iterable[PartitionFetch], started_ms: int, *, is_empty: bool) -> None:
        """A node has answered a request for these partitions; ``is_empty`` if it had nothing to say of any."""
        self._failures.pop(node_id, None)
        if not is_empty or now_ms() - started_ms >= self._hasty_ms:
            self._hasty.pop(node_id, None)
            return
        self._hasty[node_id] = count = self._hasty.get(node_id, 0) + 1
        if count > _EMPTY_AT_ONCE:
            self.later(states, count - _EMPTY_AT_ONCE)

    def later(self, states: Iterable[PartitionFetch], failures: int) -> None:
        at_ms = now_ms() + int(self._backoff.wait_ms(failures))
        for state in states:
            state.retry_at_ms = max(state.retry_at_ms, at_ms)

    def partition_failed(self, state: PartitionFetch) -> None:
        state.failures += 1
        self.later([state], state.failures)

"""What is asked about in several requests: how it is cut, and what is told when one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.client.config.config import AdminConfig
from seamark.client.errors import ClientError, ConnectionFailed, NoBrokerAvailable, broker_error
from seamark.client.net.fanout import Results, retry_each
from seamark.client.timing import Deadline
from seamark.portions import portions
from seamark.wire.protocol.error_codes import ErrorCode

CONFIG = AdminConfig.from_options({"bootstrap.servers": "127.0.0.1:1", "retry.backoff.ms": 1}, {})


@given(st.lists(st.integers(1, 20)), st.integers(1, 30))
def test_parts_keep_all_keys_in_order_and_none_is_heavier_than_it_must_be(keys: list[int], most: int) -> None:
    parts = list(portions(keys, most, lambda key: key))
    assert [key for part in parts for key in part] == keys
    assert all(sum(part) <= most or len(part) == 1 for part in parts)
    assert all(sum(part) + after[0] > most for part, after in pairwise(parts))


class Asked:
    """Attempts that note what they are asked about; ``failing`` are the errors of single attempts, by their number."""

    def __init__(self, **failing: ClientError) -> None:
        self.parts: list[list[int]] = []
        self._failing = failing

    async def attempt(self, keys: Sequence[int]) -> dict[int, str | ClientError]:
        self.parts.append(list(keys))
        error = self._failing.get(f"at{len(self.parts)}")
        if error is not None:
            raise error
        return {key: f"answer {key}" for key in keys}

    def settled(self, count: int, *, at_once: int) -> Results[int, str]:
        async def ask() -> Results[int, str]:
            return await retry_each(
                range(count),
                self.attempt,
                operation="asking",
                config=CONFIG,
                deadline=Deadline.after(5, 1000),
                at_once=at_once,
            )

        return asyncio.run(ask())


def test_more_than_fits_a_request_is_asked_about_in_several() -> None:
    asked = Asked()
    results = asked.settled(7, at_once=3)
    assert asked.parts == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(results) == list(range(7))
    assert not results.errors


def test_only_the_part_that_failed_is_asked_about_again() -> None:
    asked = Asked(at2=broker_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "OffsetCommit", "group 'g'"))
    results = asked.settled(7, at_once=3)
    assert asked.parts == [[0, 1, 2], [3, 4, 5], [6], [3, 4, 5]]
    assert not results.errors


def test_what_was_done_is_told_when_a_later_request_fails_for_good() -> None:
    error = broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "CreateTopics", "the cluster")
    asked = Asked(at2=error)
    results = asked.settled(9, at_once=3)
    assert asked.parts == [[0, 1, 2], [3, 4, 5]], "what would fail alike is not asked"
    assert list(results) == [0, 1, 2]
    assert results.errors == dict.fromkeys(range(3, 9), error)
    with pytest.raises(ClientError, match="5 more of 9"):
        results.raise_if_failed()


def test_a_broker_that_is_lost_on_the_way_leaves_what_was_done() -> None:
    asked = Asked(at3=NoBrokerAvailable({"127.0.0.1:1": "refused"}))
    results = asked.settled(9, at_once=3)
    assert list(results) == list(range(6))
    assert all(isinstance(error, NoBrokerAvailable) for error in results.errors.values())
    assert list(results.errors) == [6, 7, 8]


@pytest.mark.parametrize(
    "error",
    [
        NoBrokerAvailable({"127.0.0.1:1": "refused"}),
        broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "X", "the cluster"),
    ],
)
def test_an_error_before_anything_was_done_is_raised(error: ClientError) -> None:
    with pytest.raises(type(error)):
        Asked(at1=error).settled(9, at_once=3)


def test_a_connection_that_breaks_between_two_requests_is_no_error() -> None:
    asked = Asked(at2=ConnectionFailed("127.0.0.1:1", "the broker ended it"))
    assert not asked.settled(6, at_once=3).errors
    assert asked.parts == [[0, 1, 2], [3, 4, 5], [3, 4, 5]]

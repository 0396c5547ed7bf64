"""Asking about many things until each has a final answer or the deadline has passed.

``settle`` asks about what is still open, keeps the final answers, and asks again about the rest after a backoff. Errors
that only a change by somebody else can heal are final, even where Kafka calls them retriable: a topic that does not
exist is an answer to an administrator.

Brokers bound what one request may hold, change and be answered with. What is more is asked in several, one request
after the other, and each thing has its own result: what was done stays done when a later request fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from seamark.client.backoff import ExponentialBackoff
from seamark.client.config.config import ClientConfig
from seamark.client.deadline import Deadline
from seamark.client.errors import BrokerError, ClientError, NoBrokerAvailable
from seamark.client.net.results import Results
from seamark.portions import portions
from seamark.wire.protocol.error_codes import ErrorCode

K = TypeVar("K")
V = TypeVar("V")

# An attempt answers for some or all of the keys; keys that it leaves out are asked about again.
Attempt = Callable[[Sequence[K]], Awaitable[dict[K, V | ClientError]]]

_FINAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.REBALANCE_IN_PROGRESS})


# What one request asks about, unless its call says otherwise. Each thing may bring its topic along, so this is at most
# twice as many elements; the embedded broker takes 32,768 and Kafka changes 10,000 at once.
MOST_AT_ONCE = 10_000


def is_final(error: ClientError) -> bool:
    """Whether asking again would only get the same answer."""
    return not error.is_retriable or (isinstance(error, BrokerError) and error.code in _FINAL)


async def settle(
    keys: Iterable[K],
    attempt: Attempt[K, V],
    *,
    operation: str,
    config: ClientConfig,
    deadline: Deadline,
    at_once: int = MOST_AT_ONCE,
    weigh: Callable[[K], int] | None = None,
) -> Results[K, V]:
    """Values and errors for all keys, asked about ``at_once`` at a time, or so many that weigh as much.

    A network error that time cannot heal is raised if nothing was answered before. Otherwise it is the error of all
    that is still open, which is not asked about any more.
    """
    backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
    open_keys = list(dict.fromkeys(keys))
    values: dict[K, V] = {}
    errors: dict[K, ClientError] = {}
    last: dict[K, ClientError] = {}
    failures = 0
    while open_keys:
        answers: dict[K, V | ClientError] = {}
        lasting: ClientError | None = None
        for part in portions(open_keys, at_once, weigh):
            if lasting is not None:
                answers |= dict.fromkeys(part, lasting)
                continue
            try:
                answers |= await attempt(part)
            except ClientError as error:
                if isinstance(error, NoBrokerAvailable) or is_final(error):
                    if not (values or errors or answers):
                        raise
                    lasting = error
                answers |= dict.fromkeys(part, error)
        still_open = []
        for key in open_keys:
            answer = answers.get(key)
            if isinstance(answer, ClientError):
                if answer is lasting or is_final(answer):
                    errors[key] = answer
                else:
                    last[key] = answer
                    still_open.append(key)
            elif key in answers:
                values[key] = answer  # type: ignore[assignment]
            else:
                still_open.append(key)
        open_keys = still_open
        if not open_keys:
            break
        failures += 1
        wait_s = backoff.wait_ms(failures) / 1000
        if deadline.remaining <= wait_s:
            for key in open_keys:
                errors[key] = deadline.timed_out(operation, last.get(key))
            break
        await asyncio.sleep(wait_s)
    return Results(values, errors)

"""Waits for a topic and for acknowledgements, and says so: a person must not look at a silent screen.

A broker that creates topics by itself answers "unknown topic" until it has done so, as does one that never will. So a
missing topic is waited for, but not for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.cli.show.terminal_text import say
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from seamark.client import Producer

# A topic that is created when it is first asked for is there sooner.
_SAID_AFTER_S = 1.0
PATIENCE_S = 15.0
# Many records over a slow line take a while without anything being wrong.
FLUSH_SAID_AFTER_S = 5.0


def wait_for_topic(producer: Producer, topic: str, settings: Mapping[str, str]) -> None:
    """Return when the topic can be written to; SeamarkError if that takes longer than the patience.

    A max.block.ms that the user set takes the place of ``PATIENCE_S``.
    """
    from seamark.client.errors import BrokerError, NoBrokerAvailable, OperationTimedOut
    from seamark.wire.protocol.error_codes import ErrorCode

    patience = producer.config.max_block_ms / 1000 if "max.block.ms" in settings else PATIENCE_S
    try:
        producer.partitions_for(topic, min(_SAID_AFTER_S, patience))
    except NoBrokerAvailable:
        # The client says which address cannot be reached.
        pass
    except OperationTimedOut as error:
        say(f"seamark: {_problem(topic, error.last_error)}; waiting up to {patience:g} s for it")
    else:
        return
    try:
        producer.partitions_for(topic, patience)
    except OperationTimedOut as error:
        cause = error.last_error
        if isinstance(cause, BrokerError) and cause.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise SeamarkError(
                f"topic {topic!r} does not exist and was not created within {patience:g} s: "
                "create it with seamark topics create"
            ) from None
        raise


def flush_aloud(producer: Producer) -> None:
    """Wait until everything is stored, as ``flush`` does, and say so where that takes long."""
    from seamark.client.errors import OperationTimedOut

    try:
        producer.flush(FLUSH_SAID_AFTER_S)
    except OperationTimedOut:
        limit = producer.config.delivery_timeout_ms / 1000
        say(f"seamark: records are not acknowledged yet; waiting up to {limit:g} s (-o delivery.timeout.ms)")
        producer.flush()


def _problem(topic: str, cause: BaseException | None) -> str:
    from seamark.client.errors import BrokerError
    from seamark.wire.protocol.error_codes import ErrorCode

    if isinstance(cause, BrokerError) and cause.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic {topic!r} does not exist yet"
    return f"topic {topic!r} cannot be written to yet ({cause or 'the cluster does not respond'})"

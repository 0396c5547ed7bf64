"""Our own round trips, with what kio cannot hold: unknown tagged fields at every level, unknown error codes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from seamark.errors import DecodeError
from seamark.wire.schema.codec import decode_from, decode_in_steps
from seamark.wire.schema.schema import Message
from tests.support.message_strategies import EVERY_LABEL, EVERY_MESSAGE, messages

EXAMPLES = 200 if os.environ.get("SEAMARK_SOAK") == "1" else 10


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE, ids=EVERY_LABEL)
def test_what_is_written_is_read_again_with_unknown_tags_kept(cls: type[Message], version: int) -> None:
    @settings(
        max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    @given(messages(cls, version, flexible=version in cls.flexible, unknown_tags=True))
    def check(message: Any) -> None:
        encoded = message.encode(version)
        again = cls.decode(encoded, version)
        assert again == message
        assert cls.decode(memoryview(encoded), version) == message
        assert again.encode(version) == encoded
        assert read_in_steps(cls, encoded, version) == message
        # What is cut short is refused in the same words either way.
        for end in {len(encoded) // 2, len(encoded) - 1} - {-1}:
            assert outcome(read_in_steps, cls, encoded[:end], version) == outcome(
                decode_start, cls, encoded[:end], version
            )

    check()


def read_in_steps(cls: type[Message], encoded: bytes, version: int) -> Message:
    steps = decode_in_steps(cls, encoded, 0, version)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def decode_start(cls: type[Message], encoded: bytes, version: int) -> Message:
    return decode_from(cls, encoded, 0, version)[0]


def outcome(read: Callable[[type[Message], bytes, int], Message], *given: Any) -> object:
    try:
        return read(*given)
    except DecodeError as error:
        return str(error)

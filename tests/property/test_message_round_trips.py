"""Our own round trips, with what kio cannot hold: unknown tagged fields at every level, unknown error codes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from seamark.wire.schema import Message
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

    check()

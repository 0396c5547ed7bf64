"""``wait_until`` refuses a condition that would be true whatever it says."""

from __future__ import annotations

import pytest

from seamark.errors import UsageError
from seamark.parallel import ParallelConsumer


async def ready() -> bool:
    return False


def steps():
    yield False


@pytest.mark.parametrize("condition", [ready, steps])
def test_a_condition_that_calling_does_not_run_is_refused(condition):
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    consumer = ParallelConsumer(config, ["t"], lambda record: None)
    with pytest.raises(UsageError, match="must be a plain function"):
        consumer.wait_until(condition, timeout=0)

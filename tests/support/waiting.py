"""Waiting for what happens by itself, and saying what did not."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def eventually(
    is_so: Callable[[], bool], what: str, seconds: float = 60.0, scene: Callable[[], str] | None = None
) -> None:
    """Return when it is so; ``scene`` is asked what there is to see instead when the time is up."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            # Asked first: what is seen now is all that is left of a run that cannot be repeated.
            seen = "" if scene is None else f"\n{scene()}"
            pytest.fail(f"{what} did not happen within {seconds} s{seen}")
        time.sleep(0.05)

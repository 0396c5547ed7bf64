"""Where a handler stands, as one line for a log or a status.

The innermost line of the user's own code says more than the line of the standard library that it waits in.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Coroutine, Iterable
from types import FrameType
from typing import Any

_LIBRARY = sysconfig.get_path("stdlib")


def line_of_thread(frame: FrameType) -> str | None:
    """``frame`` is the innermost of a thread."""
    frames = []
    step: FrameType | None = frame
    while step is not None:
        frames.append(step)
        step = step.f_back
    return _line_of(frames)


def line_of_coroutine(coroutine: Coroutine[Any, Any, Any]) -> str | None:
    """Where it waits."""
    frames: list[FrameType] = []
    step: Any = coroutine
    while step is not None:
        frame = getattr(step, "cr_frame", None) or getattr(step, "gi_frame", None)
        if frame is not None:
            frames.insert(0, frame)
        step = getattr(step, "cr_await", None) or getattr(step, "gi_yieldfrom", None)
    return _line_of(frames)


def _line_of(frames: Iterable[FrameType]) -> str | None:
    """The first of the frames, innermost first, that is not the standard library's."""
    found = None
    for frame in frames:
        code = frame.f_code
        found = found or f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
        if not code.co_filename.startswith(_LIBRARY) or "site-packages" in code.co_filename:
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
    return found

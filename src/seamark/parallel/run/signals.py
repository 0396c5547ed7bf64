"""SIGTERM and SIGINT mean: drain and end. A second one means: now.

Signals can be heard by the main thread alone; elsewhere this does nothing. The handlers that were there before are put
back at the end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class DrainOnSignal:
    def __init__(self, stop: Callable[[float | None], object]) -> None:
        self._stop = stop
        self._is_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._heard)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        # No log here: a signal may come in the middle of a log line.
        is_second, self._is_asked = self._is_asked, True
        self._stop(0.0 if is_second else None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

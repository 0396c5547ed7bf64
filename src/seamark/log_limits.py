"""Log lines about what clients do, few enough that no client can fill the log.

Of one cause and one address some lines a minute are written; the last of them says that no more follow, and the first
line of a later minute how many were left out. Over all causes and addresses there is a limit too. Numbers in a
sentence do not make it another cause. The table is bounded: the entry that was used longest ago goes first.
"""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from seamark.address_failures import network_of
from seamark.counts import counted

MINUTE_S = 60.0
LINES_OF_A_CAUSE = 20
LINES_IN_ALL = 300
MOST_CAUSES = 1000
_NUMBER = re.compile(r"\d+")
# What of a sentence tells causes apart.
_CAUSE_CHARACTERS = 100


class _Minute:
    __slots__ = ("began", "left_out", "written")

    def __init__(self, began: float, left_out: int = 0) -> None:
        self.began = began
        self.written = 0
        # Lines of the minute before that were not written.
        self.left_out = left_out


class LogLimits:
    """One thread's; ``clock`` gives seconds that never go back."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._minutes: OrderedDict[tuple[str, str], _Minute] = OrderedDict()
        self._all = _Minute(clock())

    def __len__(self) -> int:
        return len(self._minutes)

    def write(
        self,
        level: int,
        address: str,
        sentence: str,
        *,
        about: str = "",
        detail: str = "",
        exc_info: bool = False,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Write ``about``, ``sentence``, ``detail``, unless there were enough of that sentence from that address.

        ``exc_info`` and ``extra`` are as in ``logging``.
        """
        if not self._log.isEnabledFor(level):
            return
        now = self._clock()
        cause = (network_of(address), _NUMBER.sub("#", sentence[:_CAUSE_CHARACTERS]))
        minute = self._minutes[cause] = self._current(self._minutes.pop(cause, None), now)
        if len(self._minutes) > MOST_CAUSES:
            self._minutes.popitem(last=False)
        self._all = self._current(self._all, now)
        if minute.written >= LINES_OF_A_CAUSE or self._all.written >= LINES_IN_ALL:
            minute.left_out += 1
            return
        minute.written += 1
        self._all.written += 1
        more = ""
        if minute.written == 1 and minute.left_out:
            more = f" ({counted(minute.left_out, 'line')} like this were left out before)"
        elif minute.written == LINES_OF_A_CAUSE or self._all.written == LINES_IN_ALL:
            more = " (more of this is left out for a minute)"
        if minute.written == 1:
            minute.left_out = 0
        self._log.log(level, "%s%s%s%s", about, sentence, detail, more, exc_info=exc_info, extra=extra)

    @staticmethod
    def _current(minute: _Minute | None, now: float) -> _Minute:
        if minute is None:
            return _Minute(now)
        return minute if now - minute.began < MINUTE_S else _Minute(now, minute.left_out)

"""The event loop that a broker runs on: uvloop where there is one, else Python's own.

When a connection cannot be accepted because too many files are open, both loops try again later by themselves. uvloop
says nothing of it, and Python's own a traceback for each attempt, a thousand at a time: here it is one line a minute.
"""

from __future__ import annotations

import asyncio
import errno
from typing import Any

from seamark.broker.clock import BrokerClock
from seamark.broker.sharing.rare_line import RareLine
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.broker")
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return python_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def python_event_loop() -> asyncio.AbstractEventLoop:
    shortage = RareLine(_log, BrokerClock())

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
            shortage.say("a connection could not be accepted, retrying: %s", error.strerror)
        else:
            loop.default_exception_handler(context)

    made = asyncio.new_event_loop()
    made.set_exception_handler(tell)
    return made

"""A broker that is the process: runs until a signal ends it.

What the caller got wrong (an option, an address in use, another broker's directory) is raised before anything serves.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from typing import Any

from seamark.broker.event_loop import new_event_loop
from seamark.broker.process_tuning import SpareMemory, tune_process
from seamark.broker.server import BrokerServer
from seamark.broker.sharing.file_limits import raise_open_file_limit
from seamark.readable_log import ReadableFormatter

_MEMORY_SECONDS = 10.0


def run(*, say: Callable[[str], None], verbose: bool, **options: Any) -> None:
    """Serve until SIGTERM or SIGINT; ``options`` are those of ``BrokerServer``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ReadableFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    raise_open_file_limit()
    # Large requests are read on another thread; the event loop's must not wait for it longer than this.
    sys.setswitchinterval(0.001)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve(loop, say, options))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _serve(loop: asyncio.AbstractEventLoop, say: Callable[[str], None], options: dict[str, Any]) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = BrokerServer(loop, _call_here, **options)
    await server.start()
    tune_process()
    _give_memory_back(loop, server, SpareMemory())
    try:
        say(f"ready bootstrap={server.bootstrap}")
        sys.stdout.flush()
        await ended.wait()
    finally:
        await server.stop()


def _give_memory_back(loop: asyncio.AbstractEventLoop, server: BrokerServer, spare: SpareMemory) -> None:
    """From time to time, when nothing waits to be done."""
    if not len(server.turns) and spare.is_much:
        loop.run_in_executor(None, spare.give_back)
    loop.call_later(_MEMORY_SECONDS, _give_memory_back, loop, server, spare)


def _call_here(function: Callable[[], Any]) -> Any:
    return function()

"""A broker that is the process: runs until a signal ends it.

What the caller got wrong (an option, an address in use, a directory of another broker) is one sentence and exit code
2, before anything serves.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from typing import Any

from seamark.broker.event_loop import new_event_loop
from seamark.broker.file_limits import raise_open_file_limit
from seamark.broker.process_tuning import tune_process
from seamark.broker.server import BrokerServer
from seamark.errors import SeamarkError, UsageError
from seamark.readable_log import ReadableFormatter


def run(*, say: Callable[[str], None], verbose: bool, **options: Any) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. ``options`` are those of ``BrokerServer``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ReadableFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    raise_open_file_limit()
    # Large requests are read on another thread; the event loop's must not wait for it longer than this.
    sys.setswitchinterval(0.001)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_serve(loop, say, options))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _serve(loop: asyncio.AbstractEventLoop, say: Callable[[str], None], options: dict[str, Any]) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    try:
        server = BrokerServer(loop, _call_here, **options)
        await server.start()
    except UsageError as error:
        print(f"seamark: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except SeamarkError as error:
        print(f"seamark: {error}", file=sys.stderr)  # noqa: T201
        return 1
    tune_process()
    try:
        say(f"ready bootstrap={server.bootstrap}")
        sys.stdout.flush()
        await ended.wait()
    finally:
        await server.stop()
    return 0


def _call_here(function: Callable[[], Any]) -> Any:
    return function()

"""A handler for processes that does what its record says: it works, raises or dies.

What it has done it notes in a file, with its process, before it returns: so the file tells what really happened.
"""

import os
import random
import signal
import threading
import time

FINE, LATE = "fine", "late"
BAD = ("raise", "raise much", "die", "exit")


def handle(record):
    number, what = record.value.decode().split(" ", 1)
    match what:
        case "raise":
            raise ValueError(f"record {number} is bad")
        case "raise much":
            raise ValueError(number, "x" * 300_000)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(4)
        case "late":
            # Whatever the process is doing by then: running another call, writing an answer, or waiting.
            threading.Thread(target=_die_in_a_moment, daemon=True).start()
    descriptor = os.open(dict(record.headers)["notes"].decode(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{number} {os.getpid()}\n".encode())
    os.close(descriptor)


def _die_in_a_moment():
    time.sleep(random.random() ** 3 * 0.02)
    os.kill(os.getpid(), signal.SIGKILL)

"""Handlers that run in processes of their own: they are found there by name."""

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

from seamark.parallel.columns import rows_of


class CannotTravel(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def note(record):
    """Write down what was run, and where, in the file that the header names."""
    path = Path(dict(record.headers)["notes"].decode())
    with path.open("a") as file:
        file.write(f"{record.value.decode()} {os.getpid()}\n")


def note_all(records):
    for record in records:
        note(record)


def note_rows(batch):
    note_all(rows_of(batch))


def misbehave(record):
    value = record.value
    if value == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if value == b"exit":
        sys.exit(3)
    if value == b"hard exit":
        os._exit(5)
    if value == b"strange":
        raise CannotTravel("lost", "on the way")
    note(record)


def work_slowly(record):
    time.sleep(0.02)
    note(record)


def only_at_home():
    """Make a handler, but not in a process of its own."""
    if multiprocessing.parent_process() is not None:
        raise LookupError("this handler stays at home")
    return HomeLover()


class HomeLover:
    def __call__(self, record): ...

    def __reduce__(self):
        return only_at_home, ()

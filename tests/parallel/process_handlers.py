"""Handlers that run in processes of their own: they are found there by name."""

import multiprocessing
import os
import signal
import stat
import sys
import threading
import time
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path

from seamark.parallel import ParallelConsumer
from seamark.parallel.core.columns import rows_of


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


_tenant = ContextVar("tenant", default=None)


def set_context(record):
    if _tenant.get() is not None:
        raise LookupError(f"another call has set {_tenant.get()}")
    _tenant.set(record.value)


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


def raise_or_die(record):
    if record.value == b"raise":
        raise ValueError("this record is bad")
    if record.value == b"die":
        os.kill(os.getpid(), signal.SIGKILL)


class Enormous(Exception):
    """Has more content than the pipe takes at once."""

    def __init__(self, content="x" * (8 << 20)):
        super().__init__("too much")
        self.content = content


class OnlyAtHome(Exception):
    """Can be pickled, and made again nowhere but in the process that raised it."""

    def __reduce__(self):
        return _not_elsewhere, (os.getpid(),)


def _not_elsewhere(pid):
    if pid != os.getpid():
        sys.exit(f"{pid} is elsewhere")
    return OnlyAtHome()


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def raise_strangely(record):
    match record.value:
        case b"enormous":
            raise Enormous
        case b"only at home":
            raise OnlyAtHome
        case b"unspeakable":
            raise Unspeakable


def sockets():
    """The numbers of this process's sockets: nothing but the pipe to its owner."""
    found = []
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                found.append(number)
        except OSError:
            pass
    return found


def spoil_the_pipe(record):
    match record.value:
        case b"write":
            for number in sockets():
                os.write(number, b"this is not for the owner of the pipe")
        case b"close":
            os.closerange(3, 256)
        case b"close and raise":
            os.closerange(3, 256)
            raise ValueError("nobody hears this")
        case b"replace":
            # The handler's own file gets the number that the pipe had.
            (number,) = sockets()
            os.dup2(os.open(dict(record.headers)["notes"].decode(), os.O_WRONLY), number)


def leave_a_copy(record):
    """Make a copy of the process that holds everything open, and die."""
    if record.value == b"copy and die":
        copy = os.fork()
        if copy == 0:
            time.sleep(60)
            os._exit(0)
        Path(dict(record.headers)["notes"].decode()).write_text(str(copy))
        os.kill(os.getpid(), signal.SIGKILL)
    if record.value == b"copy comes back" and os.fork() == 0:
        return
    if record.value == b"copy raises" and os.fork() == 0:
        raise ValueError("in the copy")
    if record.value == b"copy exits" and os.fork() == 0:
        sys.exit(0)


def stop_itself(record):
    if record.value == b"stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def leave_threads_behind(record):
    if record.value == b"thread for ever":
        threading.Thread(target=time.sleep, args=(600,)).start()
    if record.value == b"thread that dies":
        threading.Thread(target=sys.exit, daemon=True).start()
    if record.value == b"thread that kills":
        threading.Thread(target=os._exit, args=(9,), daemon=True).start()
        time.sleep(60)


def ignore(given): ...


def refuse_to_arrive():
    raise ValueError("this list cannot be read")


def put_work_off(record):
    async def coroutine(): ...

    async def async_generator():
        yield

    match record.value:
        case b"generator":
            return (each for each in [record])
        case b"coroutine":
            return coroutine()
        case b"async generator":
            return async_generator()
        case b"future":
            return Future()
        case b"map":
            return map(print, [record])


def work_very_slowly(record):
    note(record)
    time.sleep(1.0)


def note_and_leave_a_thread(record):
    note(record)
    threading.Thread(target=time.sleep, args=(600,)).start()
    time.sleep(0.02)


def stop_a_consumer(record):
    ParallelConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, ["t"], print).stop()

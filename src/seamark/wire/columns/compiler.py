"""Compiled kernels: loaded from numba's cache on disk, or compiled and kept there, at first use in a process.

A compile takes a second or two in which nothing else seems to happen, so it says so in one line: a warning of the
logger ``seamark.wire``, which reaches stderr where no logging is set up. Loading from the cache is silent. Where no
cache can be read or written (a read-only home, a damaged file), the kernel is compiled for this process alone; a decode
never fails for it.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from numba import njit
from numba.core import event

from seamark.readable_log import readable_logger
from seamark.wire.columns import kernels

Kernel = Callable[..., int]

log = readable_logger("seamark.wire")

# Two threads that decode their first batch at once must not both compile.
_building = threading.RLock()


class _Announcement(event.Listener):
    """Says that a compile starts, once in a process however many kernels follow."""

    made = False

    def on_start(self, _: Any) -> None:
        if not _Announcement.made:
            _Announcement.made = True
            log.warning(
                "compiling the Arrow column decoder for this processor; later starts load it from numba's cache"
            )

    def on_end(self, _: Any) -> None:
        pass


def _compile(function: Callable[..., int], signature: Any) -> Kernel:
    try:
        kernel: Kernel = njit(signature, cache=True, nogil=True)(function)
    except (OSError, RuntimeError, EOFError, AttributeError, pickle.UnpicklingError) as error:
        log.info("numba's cache cannot be used: %s", error)
        kernel = njit(signature, nogil=True)(function)
    return kernel


@cache
def _built(module: ModuleType, name: str) -> Kernel:
    with event.install_listener("numba:compile", _Announcement()):
        return _compile(getattr(module, name), getattr(module, name.upper()))


def compiled(module: ModuleType, name: str) -> Kernel:
    """A module's function, whose signature stands beside it in capitals, compiled."""
    with _building:
        return _built(module, name)


def decode_records() -> Kernel:
    """The compiled ``kernels.decode_records``."""
    return compiled(kernels, "decode_records")


def copy_headers() -> Kernel:
    """The compiled ``kernels.copy_headers``; readers that want no headers never wait for it."""
    return compiled(kernels, "copy_headers")

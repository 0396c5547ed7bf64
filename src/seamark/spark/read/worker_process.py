"""What a task leaves behind in the Python worker that Spark reuses for the next one.

Spark runs a full garbage collection after every task. With numba and Arrow loaded that takes 80 ms, each time, to find
nothing: the modules are there to stay. ``settle`` takes everything that exists after the first task out of the
collector's sight.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_settled_in = -1


def settled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; and when the first task of the process has ended, a worker that is quick to end the next."""
    yield from batches
    settle()


def settle() -> bool:
    """Once per process; whether this was the time."""
    global _settled_in
    if _settled_in == os.getpid():
        return False
    _settled_in = os.getpid()
    gc.freeze()
    return True

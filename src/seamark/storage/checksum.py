"""CRC-32C, imported on first use: the package takes longer to load than all of ``seamark.storage``.

Loops take the function itself from ``crc32c_function``; everything else calls ``crc32c``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from seamark.storage.filesystem import Bytes


@cache
def crc32c_function() -> Callable[[Bytes, int], int]:
    """Return the checksum as a function of bytes and the checksum of the bytes before them, 0 at the start."""
    from crc32c import crc32c

    function: Callable[[Bytes, int], int] = crc32c
    return function


def crc32c(content: Bytes, before: int = 0) -> int:
    """Return the checksum of ``content`` behind bytes that have the checksum ``before``."""
    return crc32c_function()(content, before)

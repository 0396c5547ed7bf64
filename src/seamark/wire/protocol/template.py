"""Where a number stands in bytes that were encoded twice: once with all its bits clear and once with all set.

This finds places in an encoding without knowing its format, so what is found can never disagree with the codec.
"""

from __future__ import annotations

import re


def gaps_between(clear: bytes, set_: bytes, width: int) -> list[int]:
    """The positions of all ``width`` byte numbers that differ between the two encodings of equal length.

    >>> gaps_between(b"ab" + bytes(2) + b"c", b"ab" + bytes([255]) * 2 + b"c", 2)
    [2]
    """
    if len(clear) != len(set_):
        raise ValueError(f"the encodings have {len(clear)} and {len(set_)} bytes, so the number has no fixed width")
    differing = (int.from_bytes(clear) ^ int.from_bytes(set_)).to_bytes(len(clear))
    return [gap.start() for gap in re.finditer(b"[^\\x00]{%d}" % width, differing)]

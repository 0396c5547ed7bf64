"""The names in a log's directory, both ways.

A segment is named for its first offset in 20 digits, as Kafka does. ``.log`` holds batches; ``.index`` can always be
made again from it. ``.cleaned`` is a rewrite that has not taken its segment's place yet. ``.damaged`` is what
recovery moved aside: nothing ever reads it.
"""

from __future__ import annotations

import re

LOG = ".log"
INDEX = ".index"
CLEANED = ".cleaned"
DAMAGED = ".damaged"
UNFINISHED = ".tmp"

FORMAT_FILE = "format"
LOG_START_FILE = "log-start"
CLEANING_FILE = "cleaning"
CLEAN_SHUTDOWN_FILE = "clean-shutdown"
CHECKPOINT_FILES = frozenset({FORMAT_FILE, LOG_START_FILE, CLEANING_FILE, CLEAN_SHUTDOWN_FILE})

_SEGMENT_FILE = re.compile(r"(\d{20})(\.log|\.index|\.cleaned)", re.ASCII)
_LARGEST_OFFSET = 2**63 - 1


def segment_file(base_offset: int, suffix: str) -> str:
    """Return the name of one of a segment's files.

    >>> segment_file(42, LOG)
    '00000000000000000042.log'
    """
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """Return first offset and suffix, or None when the name is not a segment's."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or int(match[1]) > _LARGEST_OFFSET:
        return None
    return int(match[1]), match[2]

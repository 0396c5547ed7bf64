"""Where old consumers keep things in ZooKeeper, and what their nodes hold.

    /consumers/<group>/offsets/<topic>/<partition>   the offset as decimal text
    /consumers/<group>/ids/<member>                  a member that is there now
    /consumers/<group>/owners/<topic>/<partition>    the member that reads the partition now

Pure: paths to values and back. Only what Kafka itself would have written is taken for an offset or a partition.
"""

from __future__ import annotations

import re

from seamark.stores.contract import BadOffset, StoredOffset, is_offset

CONSUMERS = "/consumers"

_OFFSET = re.compile(rb"[0-9]{1,19}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
# What ZooKeeper refuses in a node's name, beside the slash that ends one.
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
_LARGEST_PARTITION = (1 << 31) - 2


def offsets_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/offsets"


def topic_path(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def partition_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


def members_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def owners_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/owners"


def why_not_a_node(name: str) -> str | None:
    """Why a group or topic cannot be the name of a node; None where it can.

    >>> why_not_a_node("orders"), why_not_a_node("a/b")
    (None, 'it contains a slash')
    """
    if not name:
        return "it is empty"
    if "/" in name:
        return "it contains a slash"
    if name in (".", ".."):
        return "it is a relative path"
    if _REFUSED.search(name):
        return "it contains a character that ZooKeeper does not allow"
    return None


def read_offset(path: str, content: bytes | None) -> StoredOffset | BadOffset:
    """What a partition's node holds.

    >>> read_offset("/p", b"42"), read_offset("/p", b"4 2")
    (StoredOffset(offset=42, metadata='', leader_epoch=None), BadOffset(path='/p', text='4 2'))
    """
    content = content or b""
    if _OFFSET.fullmatch(content) and is_offset(number := int(content)):
        return StoredOffset(number)
    return BadOffset(path, content.decode("utf-8", "backslashreplace"))


def offset_text(offset: int) -> bytes:
    return b"%d" % offset


def read_partition(name: str) -> int | None:
    """The partition that a node's name stands for; None for a name that Kafka does not write."""
    if not _PARTITION.fullmatch(name):
        return None
    number = int(name)
    return number if number <= _LARGEST_PARTITION else None

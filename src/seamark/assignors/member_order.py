"""The orders in which members are served. Kafka's results depend on them, so they are part of the strategies.

Two are documented: by member id, and static members (by instance id) before dynamic ones. The third is the order in
which a Java leader visits its hash table of members; it decides who keeps the larger share when more members hold one
than may, and which of several claims to a partition is heard first. All compare text by UTF-16 unit, as Java does.

None depends on the order in which members are passed in: ids that share a place in the hash table are visited by id. A
Java leader visits those in the order in which the broker listed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from seamark.assignors.contract import MemberSubscription
from seamark.errors import UsageError

_SMALLEST_TABLE = 16
_SIGN_FREE_32_BITS = 0xFFFFFFFF


def text_order(text: str) -> bytes:
    """A sort key that orders text by UTF-16 unit."""
    return text.encode("utf-16-be", "surrogatepass")


def by_member_id(members: Iterable[MemberSubscription]) -> list[MemberSubscription]:
    ordered = sorted(members, key=lambda member: text_order(member.member_id))
    for one, other in pairwise(ordered):
        if one.member_id == other.member_id:
            raise UsageError(f"member id {one.member_id!r} stands for two members of one group")
    return ordered


def static_members_first(members: Iterable[MemberSubscription]) -> list[MemberSubscription]:
    """Static members by instance id, then dynamic members by member id."""
    return sorted(by_member_id(members), key=_static_order)


def _static_order(member: MemberSubscription) -> tuple[bool, bytes]:
    if member.instance_id is None:
        return True, text_order(member.member_id)
    return False, text_order(member.instance_id)


def in_visiting_order(members: Sequence[MemberSubscription]) -> list[MemberSubscription]:
    """Members as a Java leader comes upon them in its hash table."""
    places = table_size(len(members))
    return sorted(by_member_id(members), key=lambda member: place_in_table(text_hash(member.member_id), places))


def text_hash(text: str) -> int:
    """Java's hash of a string, as an unsigned number."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass"))
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _SIGN_FREE_32_BITS
    return value


def place_in_table(hash_value: int, places: int) -> int:
    """Where a Java hash table of that size keeps a key; it folds the upper half of the hash into the lower."""
    return (hash_value ^ (hash_value >> 16)) & (places - 1)


def table_size(count: int, at_least: int = _SMALLEST_TABLE) -> int:
    """Places of a table that holds ``count`` keys: doubled whenever more than three quarters would be taken."""
    places = at_least
    while count * 4 > places * 3:
        places *= 2
    return places

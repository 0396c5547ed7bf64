"""Group records as rows of ``generations``: members in the lake's form, who joined and who is gone.

Everything is done on whole columns: members and assignments are flattened, compared as numbers, and folded into lists
again. A tombstone has no members, so everybody who was there is gone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamark.spark.lake.tables.schemas import file_schema

MEMBERS: pa.DataType = file_schema("generations").field("members").type
_MEMBER: pa.DataType = MEMBERS.value_type
_ASSIGNED: pa.DataType = _MEMBER.field("assigned").type
_NAMES = pa.list_(pa.string())


class Assignments(NamedTuple):
    """Assigned partitions of many group records, flattened: ``record`` and ``member`` are places among them."""

    topics: pa.Array
    partitions: Any
    member: Any
    record: Any


def lake_members(decoded: pa.Array) -> pa.Array:
    """Members as the wire decoder gives them, in the form that the lake has; null stays null."""
    people = decoded.flatten()
    pairs = people.field("assigned")
    flat = pairs.flatten()
    topics, partitions = flat.field("topic"), flat.field("partition")
    counts = _lengths(pairs)
    of_member = np.repeat(np.arange(len(people)), counts)
    codes = np.asarray(topics.dictionary_encode().indices) if len(topics) else np.zeros(0, np.int64)
    # A run is one topic of one member; decoded partitions stand in the order of their topics.
    begins = np.ones(len(flat), bool)
    begins[1:] = (of_member[1:] != of_member[:-1]) | (codes[1:] != codes[:-1])
    first = np.flatnonzero(begins)
    runs = pa.StructArray.from_arrays(
        [
            topics.take(pa.array(first)),
            pa.ListArray.from_arrays(_ends(np.diff(np.append(first, len(flat)))), partitions),
        ],
        fields=list(_ASSIGNED.value_type),
    )
    runs_per_member = np.bincount(of_member[first], minlength=len(people)) if len(first) else np.zeros(len(people), int)
    columns = [
        *(people.field(name) for name in ("member_id", "instance_id", "client_id", "client_host")),
        people.field("session_timeout_ms"),
        people.field("rebalance_timeout_ms"),
        pa.ListArray.from_arrays(_ends(runs_per_member), runs),
    ]
    members = pa.StructArray.from_arrays(columns, fields=list(_MEMBER))
    return _folded(_lengths(decoded), members, np.asarray(decoded.is_null()))


def assignments(members: pa.Array) -> Assignments:
    """What is assigned in members of the lake's form."""
    people = members.flatten()
    of_record = np.repeat(np.arange(len(members)), _lengths(members))
    runs = people.field("assigned")
    of_member = np.repeat(np.arange(len(people)), _lengths(runs))
    flat = runs.flatten()
    sizes = _lengths(flat.field("partitions"))
    member = np.repeat(of_member, sizes)
    topics = flat.field("topic").take(pa.array(np.repeat(np.arange(len(flat)), sizes)))
    partitions = np.asarray(flat.field("partitions").flatten(), np.int64)
    return Assignments(topics, partitions, member, of_record[member] if len(people) else member)


def joined_and_gone(members: pa.Array, before: Any) -> tuple[pa.Array, pa.Array]:
    """Per record the member ids that came and those that went; ``before`` is the place of the record before, or -1."""
    people = members.flatten()
    counts = _lengths(members)
    if not len(people):
        nobody = _folded(np.zeros(len(members), int), pa.array([], pa.string()))
        return nobody, nobody
    ids = people.field("member").dictionary_encode()
    codes = np.asarray(ids.indices, np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    record = np.repeat(np.arange(len(members)), counts)
    known = np.flatnonzero(before >= 0)
    sizes = counts[before[known]]
    # The members of the record before, told as those of this one.
    earlier = np.repeat(known, sizes)
    within = np.arange(len(earlier)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    earlier_codes = codes[np.repeat(starts[before[known]], sizes) + within] if len(earlier) else np.zeros(0, np.int64)
    width = len(ids.dictionary)
    here, there = record * width + codes, earlier * width + earlier_codes
    return _lists(here[~np.isin(here, there)], width, ids.dictionary, len(members)), _lists(
        there[~np.isin(there, here)], width, ids.dictionary, len(members)
    )


def _lists(pairs: Any, width: int, names: pa.Array, records: int) -> pa.Array:
    pairs = np.sort(pairs)
    counts = np.bincount(pairs // width, minlength=records) if len(pairs) else np.zeros(records, int)
    return _folded(counts, names.take(pa.array(pairs % width)))


def _folded(counts: Any, flat: pa.Array, is_null: Any = None) -> pa.Array:
    ends = _ends(counts)
    if is_null is None or not is_null.any():
        return pa.ListArray.from_arrays(ends, flat)
    return pa.ListArray.from_arrays(ends, flat, mask=pa.array(is_null))


def _ends(counts: Any) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def _lengths(lists: pa.Array) -> Any:
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0), np.int64)

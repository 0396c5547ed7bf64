"""Numbers in place of names, so that histories are followed without a Python object per record.

Groups and topics get a number when they are first seen and keep it for the run; members are only kept as long as some
partition is theirs, because every rebalance may bring new ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from seamark.spark.lake.history import kernels

# Below this many members nothing is gained by forgetting those that are gone.
_MOST_PEOPLE = 1 << 14
_COLUMNS = {"owner": "member", "owner_client": "client", "owner_host": "host"}


def grown(count: int) -> int:
    """A power of two with room for as many again."""
    return 1 << (2 * count - 1).bit_length()


class Names:
    """Texts and their numbers, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, texts: pa.Array) -> Any:
        encoded = texts.dictionary_encode()
        known = self._numbers
        own = np.fromiter(
            (known.setdefault(text, len(known)) for text in encoded.dictionary.to_pylist()),
            np.int64,
            len(encoded.dictionary),
        )
        return own[np.asarray(encoded.indices)]

    def texts(self, numbers: Any) -> pa.Array:
        return pa.array(list(self._numbers), pa.string()).take(pa.array(numbers))


class Numbers:
    """A number per number, ``missing`` for those that were never put."""

    def __init__(self, missing: int) -> None:
        self._missing = missing
        self.all = np.full(0, missing, np.int64)

    def of(self, keys: Any, room: int) -> Any:
        self._make_room(room)
        return self.all[keys]

    def put(self, keys: Any, numbers: Any, room: int) -> None:
        self._make_room(room)
        self.all[keys] = numbers

    def _make_room(self, room: int) -> None:
        if room > len(self.all):
            larger = np.full(grown(room), self._missing, np.int64)
            larger[: len(self.all)] = self.all
            self.all = larger


class People:
    """Members whose partitions are remembered, by the number that slots have for their owner."""

    def __init__(self) -> None:
        self._columns = {name: pa.array([], pa.string()) for name in _COLUMNS}
        self._most = _MOST_PEOPLE

    def __len__(self) -> int:
        return len(self._columns["owner"])

    def add(self, members: pa.Array) -> int:
        """The number of the first of them."""
        first = len(self)
        people = members.flatten()
        self._columns = {
            name: pa.concat_arrays([self._columns[name], people.field(field)]) for name, field in _COLUMNS.items()
        }
        return first

    def named(self, numbers: Any) -> dict[str, pa.Array]:
        """The owner's columns of commits; -1 is nobody."""
        wanted = pa.array(numbers, mask=numbers < 0)
        return {name: column.take(wanted) for name, column in self._columns.items()}

    def keep(self, slots: Any, standings: Any) -> None:
        """Forget who owns nothing any more, once there are many; ``slots`` is changed to the new numbers."""
        if len(self) <= self._most:
            return
        is_owned = slots[kernels.OWNED_IN] == standings[kernels.RECORD, slots[kernels.SLOT_GROUP]]
        is_owned &= slots[kernels.OWNER] >= 0
        kept, places = np.unique(slots[kernels.OWNER][is_owned], return_inverse=True)
        slots[kernels.OWNER, is_owned] = places
        slots[kernels.OWNER, ~is_owned] = -1
        self._columns = {name: column.take(pa.array(kept)) for name, column in self._columns.items()}
        self._most = max(_MOST_PEOPLE, 2 * len(self))

"""The traffic of the story: orders of customers, a few of whom place most of them, and one order that nobody can ship.

Pure and from a seed: the same number of rows gives the same orders. The hot customer places a quarter of all orders,
the rest is spread ever more thinly. The poison order comes from a customer who orders seldom, early enough that most
of its partition lies behind it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

CUSTOMERS = 200
LEAST_ROWS = 200
_HOT_SHARE = 0.25
_SEED = 20
# Where the poison stands, as a share of all orders.
_POISON_AT = 0.1


class Order(NamedTuple):
    key: bytes
    value: bytes


@dataclass(frozen=True)
class Orders:
    """``rows`` orders; ``held`` of them cannot be shipped: the poison and what its customer ordered after it."""

    rows: int

    def __iter__(self) -> Iterator[Order]:
        chance = random.Random(_SEED)
        for number, customer in enumerate(self._customers):
            weight = "heavy" if number == self.poison else f"{chance.uniform(0.1, 30):.1f}"
            order = {"order": number, "customer": f"customer {customer}", "weight": weight}
            yield Order(b"customer %d" % customer, json.dumps(order).encode())

    @property
    def poison(self) -> int:
        return int(self.rows * _POISON_AT)

    @property
    def poison_customer(self) -> str:
        return f"customer {self._customers[self.poison]}"

    @property
    def held(self) -> int:
        customer = self._customers[self.poison]
        return sum(other == customer for other in self._customers[self.poison :])

    @property
    def hot_share(self) -> float:
        """What share of the orders the busiest customer has."""
        return self._customers.count(0) / self.rows

    @cached_property
    def _customers(self) -> list[int]:
        rest = [(1 - _HOT_SHARE) / (rank + 3) for rank in range(1, CUSTOMERS)]
        scale = (1 - _HOT_SHARE) / sum(rest)
        shares = list(accumulate([_HOT_SHARE, *(share * scale for share in rest)]))
        drawn = random.Random(_SEED + 1).choices(range(CUSTOMERS), cum_weights=shares, k=self.rows)
        drawn[self.poison] = CUSTOMERS - 1
        return drawn


def weight_of(value: bytes) -> float:
    """What shipping needs of an order; ValueError for the poison."""
    text = json.loads(value)["weight"]
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"the weight {text!r} is not a number") from None

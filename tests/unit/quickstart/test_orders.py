"""The traffic of the quickstart: the same each time, skewed, and with one order that cannot be shipped."""

import json
from collections import Counter

import pytest

from seamark.quickstart.orders import LEAST_ROWS, Orders, weight_of


@pytest.mark.parametrize("rows", [LEAST_ROWS, 5_000])
def test_the_same_rows_give_the_same_orders(rows):
    assert list(Orders(rows)) == list(Orders(rows))
    assert len(list(Orders(rows))) == rows


def test_one_customer_has_about_a_quarter_and_most_have_little():
    counts = Counter(order.key for order in Orders(10_000))
    (busiest, most), (_, second) = counts.most_common(2)
    assert busiest == b"customer 0"
    assert most / 10_000 == pytest.approx(Orders(10_000).hot_share)
    assert 0.22 < most / 10_000 < 0.28
    assert second < most / 4


@pytest.mark.parametrize("rows", [LEAST_ROWS, 1_000, 20_000])
def test_only_the_poison_cannot_be_shipped_and_those_held_are_its_customers_later_ones(rows):
    orders = Orders(rows)
    bad = []
    for number, order in enumerate(orders):
        try:
            assert weight_of(order.value) > 0
        except ValueError:
            bad.append(number)
    assert bad == [orders.poison]
    poison = json.loads(list(orders)[orders.poison].value)
    assert poison["customer"] == orders.poison_customer
    behind = [order for order in list(orders)[orders.poison :] if order.key.decode() == orders.poison_customer]
    assert len(behind) == orders.held >= 1

from __future__ import annotations

import pytest

from seamark.assignors.member_order import by_member_id, in_visiting_order, static_members_first, table_size, text_hash
from seamark.errors import UsageError
from tests.unit.assignors.notation import member


def _ids(members):
    return [one.member_id for one in members]


def test_text_is_ordered_by_utf_16_unit():
    # U+FF5E is a smaller code point than U+1F600 but a larger unit than its surrogates.
    assert _ids(by_member_id([member("\uff5e", "t"), member("\U0001f600", "t"), member("z", "t")])) == [
        "z",
        "\U0001f600",
        "\uff5e",
    ]


def test_static_members_precede_dynamic_ones():
    members = [member("b", "t"), member("a", "t"), member("z", "t", instance_id="2"), member("y", "t", instance_id="1")]
    assert _ids(static_members_first(members)) == ["y", "z", "a", "b"]


def test_one_id_for_two_members_is_refused():
    with pytest.raises(UsageError, match="member id 'a' stands for two members"):
        by_member_id([member("a", "t"), member("a", "t")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("C0", 2125), ("consumer-1", 0xF617641A), ("\U0001f600", 1772899)],
)
def test_hashes_are_those_of_java(text, expected):
    assert text_hash(text) == expected


def test_a_table_doubles_when_more_than_three_quarters_are_taken():
    assert [table_size(count) for count in (0, 12, 13, 24, 25, 48, 49)] == [16, 16, 32, 32, 64, 64, 128]


def test_members_are_visited_by_their_place_in_the_table():
    # hash("a") is 97 and falls on place 1 of 16, "q" (113) on the same place, "p" (112) on place 0.
    assert _ids(in_visiting_order([member(name, "t") for name in ("q", "a", "p")])) == ["p", "a", "q"]

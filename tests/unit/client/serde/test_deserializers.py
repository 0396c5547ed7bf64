"""Deserializers and serializers: what users may write for key and value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.client.serde.deserializers import load_deserializer
from seamark.client.serde.serializers import load_serializer, to_bytes
from seamark.errors import UsageError


def test_bytes_are_handed_out_as_they_are() -> None:
    assert load_deserializer("key", bytes) is None
    assert load_deserializer("key", None) is None


@pytest.mark.parametrize("content", [b"\x07", b"\x00\x07", bytes(3) + b"\x07", bytes(7) + b"\x07"])
def test_integers_have_the_sizes_of_javas(content: bytes) -> None:
    read = load_deserializer("key", int)
    assert read is not None
    assert read(content) == 7
    with pytest.raises(ValueError, match="1, 2, 4 or 8 bytes, got 3"):
        read(b"123")


def test_any_function_will_do() -> None:
    read = load_deserializer("value", bytes.hex)
    assert read is not None
    assert read(b"\x0f") == "0f"


def test_a_function_that_gives_something_to_await_or_to_iterate_is_refused() -> None:
    async def coroutine(content: bytes) -> bytes:
        return content

    def generator(content: bytes) -> Iterator[bytes]:
        yield content

    for load, what in ((load_deserializer, "deserializer"), (load_serializer, "serializer")):
        with pytest.raises(UsageError, match=f"the value {what} is a coroutine function"):
            load("value", coroutine)
        with pytest.raises(UsageError, match=f"the key {what} is a generator function"):
            load("key", generator)


def test_what_is_no_deserializer_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="value=7"):
        load_deserializer("value", 7)
    with pytest.raises(UsageError, match="key='yaml'"):
        load_serializer("key", "yaml")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (str, st.text()),
        (int, st.integers(-(2**63), 2**63 - 1)),
        (float, st.floats(allow_nan=False)),
        ("json", st.dictionaries(st.text(), st.none() | st.integers() | st.lists(st.text()))),
    ],
)
def test_what_is_written_is_read_back(kind, values) -> None:
    write, read = load_serializer("value", kind), load_deserializer("value", kind)

    @given(values)
    def check(value) -> None:
        assert read(write(value)) == value

    check()


def test_a_value_that_cannot_be_written_names_topic_and_part() -> None:
    with pytest.raises(UsageError, match="value of a record for topic 'orders' cannot be serialized: TypeError"):
        to_bytes("value", object(), load_serializer("value", "json"), "orders")
    with pytest.raises(UsageError, match="key of a record for topic 'orders' is str, not bytes"):
        to_bytes("key", "text", None, "orders")
    assert to_bytes("key", None, load_serializer("key", str), "orders") is None
    assert to_bytes("key", bytearray(b"x"), None, "orders") == b"x"

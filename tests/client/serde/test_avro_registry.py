"""Avro through a schema registry: the format, the registry's answers, and what is wrong with either."""

from __future__ import annotations

import socket
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client import Avro, SchemaRegistry
from seamark.client.serde.schema_registry import RegistryError
from seamark.client.serde.serializers import load_serializer, to_bytes
from seamark.errors import ConfigError, MissingExtra, UsageError
from tests.support.schema_registry import FakeRegistry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}


@pytest.fixture
def registry():
    with FakeRegistry() as made:
        yield made


def test_a_datum_is_written_behind_its_schemas_id_and_read_back(registry):
    registry.add("elsewhere-value", "string")
    avro = Avro(registry.url, schema=ORDER)
    content = avro.encode("orders", "value", {"id": 7, "note": None})
    # A zero, the id in four bytes, then zigzag 7 and the null branch of the union.
    assert content == b"\x00" + (2).to_bytes(4, "big") + b"\x0e\x00"
    assert registry.subjects["orders-value"] == [2]
    assert Avro(registry.url)(content) == {"id": 7, "note": None}


@given(st.integers(-(2**63), 2**63 - 1), st.none() | st.text())
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_what_is_read(number, note):
    avro = _shared()
    assert avro(avro.encode("orders", "value", {"id": number, "note": note})) == {"id": number, "note": note}


_kept: list[Avro] = []


def _shared() -> Avro:
    """One for all examples, over a registry that was asked before and is gone: everything is known."""
    if not _kept:
        with FakeRegistry() as registry:
            avro = Avro(registry.url, schema=ORDER)
            avro(avro.encode("orders", "value", {"id": 0}))
        _kept.append(avro)
    return _kept[0]


def test_the_registry_is_asked_once_per_schema(registry):
    avro = Avro(registry.url, schema=ORDER)
    for number in range(5):
        avro(avro.encode("orders", "value", {"id": number}))
    avro.encode("orders", "key", {"id": 1})
    assert registry.requests == [
        "POST /subjects/orders-value/versions",
        "GET /schemas/ids/1",
        "POST /subjects/orders-key/versions",
    ]


def test_a_reader_may_ask_for_another_shape(registry):
    content = Avro(registry.url, schema=ORDER).encode("orders", "value", {"id": 7, "note": "x"})
    newer = {**ORDER, "fields": [ORDER["fields"][0], {"name": "colour", "type": "string", "default": "red"}]}
    assert Avro(registry.url, schema=newer)(content) == {"id": 7, "colour": "red"}


def test_a_writer_without_a_schema_takes_the_newest_of_its_subject(registry):
    registry.add("orders-value", "string")
    registry.add("orders-value", ORDER)
    assert Avro(registry.url).encode("orders", "value", {"id": 1})[:5] == b"\x00\x00\x00\x00\x02"
    with pytest.raises(RegistryError, match="newest schema of subject 'nobody-value': Schema not found"):
        Avro(registry.url).encode("nobody", "value", 1)


def test_a_writer_that_may_not_register_looks_its_schema_up(registry):
    avro = Avro(registry.url, schema=ORDER, register=False)
    with pytest.raises(RegistryError, match="could not find the schema for subject 'orders-value'") as caught:
        avro.encode("orders", "value", {"id": 1})
    assert caught.value.status == 404
    registry.add("orders-value", ORDER)
    assert avro(avro.encode("orders", "value", {"id": 1}))["id"] == 1
    assert registry.schemas.keys() == {1}


def test_subjects_may_be_named_otherwise(registry):
    Avro(registry.url, schema=ORDER, subject="Order").encode("orders", "value", {"id": 1})
    Avro(registry.url, schema=ORDER, subject=lambda topic, part: f"{part}/{topic}").encode("orders", "key", {"id": 1})
    assert registry.subjects.keys() == {"Order", "key/orders"}
    with pytest.raises(UsageError, match="subject must be a name"):
        Avro(registry.url, subject=7)


def test_schemas_that_name_others_are_read_with_them(registry):
    registry.add("money", {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]})
    price = {"type": "record", "name": "Price", "fields": [{"name": "net", "type": "Money"}]}
    registry.add("price", price, [{"name": "Money", "subject": "money", "version": 1}])
    bill = {
        "type": "record",
        "name": "Bill",
        "fields": [{"name": "net", "type": "Money"}, {"name": "p", "type": "Price"}],
    }
    needed = [{"name": "Price", "subject": "price", "version": 1}, {"name": "Money", "subject": "money", "version": 1}]
    registry.add("bills-value", bill, needed)
    avro = Avro(registry.url)
    datum = {"net": {"cents": 5}, "p": {"net": {"cents": 6}}}
    assert avro(avro.encode("bills", "value", datum)) == datum


def test_schemas_that_name_each_other_in_a_circle_are_refused(registry):
    registry.add("a", "int", [{"name": "B", "subject": "b", "version": 1}])
    registry.add("b", "long", [{"name": "A", "subject": "a", "version": 1}])
    with pytest.raises(RegistryError, match="refers to itself"):
        Avro(registry.url)(b"\x00\x00\x00\x00\x01\x02")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "0 bytes are too few"),
        (b"\x00\x00\x00", "3 bytes are too few"),
        (b'{"id": 7}', "begins with byte 123, not with the magic byte 0"),
        (b"\x00\x00\x00\x00\x01\x0e\x00\x00", "1 extra bytes after the datum of schema 1"),
        (b"\x00\x00\x00\x00\x02\x00", "schema 2 is a JSON schema, not an Avro schema"),
    ],
)
def test_bytes_that_are_no_datum_are_told_apart(registry, content, reason):
    registry.add("orders-value", ORDER)
    registry.add("others-value", {}, kind="JSON")
    with pytest.raises(ValueError, match=reason):
        Avro(registry.url)(content)


def test_a_schema_that_is_not_avros_is_refused_at_once(registry):
    for wrong in ({"type": "colour"}, "{", {"type": "array"}, {"type": object()}):
        with pytest.raises(UsageError, match="schema"):
            Avro(registry.url, schema=wrong)


def test_a_datum_that_does_not_fit_names_the_part_and_topic(registry):
    write = load_serializer("value", Avro(registry.url, schema=ORDER))
    for wrong in ({"id": "seven"}, {"id": 1, "more": 2}, {}, 5):
        with pytest.raises(UsageError, match="the value of a record for topic 'orders' cannot be serialized"):
            to_bytes("value", wrong, write, "orders")
    assert to_bytes("value", None, write, "orders") is None, "a tombstone has no schema"


# -- the registry


def test_credentials_are_sent_and_never_shown():
    with FakeRegistry("me", "s3cr:et@") as registry:
        inside = SchemaRegistry(f"http://me:s3cr%3Aet%40@{registry.address}/")
        apart = SchemaRegistry(registry.url, username="me", password="s3cr:et@")
        for each in (inside, apart):
            number = each.schema_id("t", '"int"', register=True)
            assert each.schema(number).text == '"int"'
            assert "s3cr" not in repr(each)
            assert "s3cr" not in repr(Avro(each))
        wrong = SchemaRegistry(f"http://me:wr0ng@{registry.address}")
        with pytest.raises(RegistryError, match=r"Unauthorized \(HTTP 401\)") as caught:
            wrong.schema(1)
        assert "wr0ng" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_redirects_are_not_followed_so_that_credentials_stay_where_they_belong(registry):
    with FakeRegistry() as other:
        other.add("t", "int")
        registry.instead = (302, {"Location": other.url + "/schemas/ids/1"}, b"")
        with pytest.raises(RegistryError, match="HTTP 302"):
            SchemaRegistry(registry.url, username="me", password="secret").schema(1)
        assert other.requests == []


def test_a_registry_that_is_down_or_silent_or_foreign_is_told_in_a_sentence(registry):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(
        RegistryError, match=rf"at http://127.0.0.1:{port} could not return the schema with id 1: .*refused"
    ):
        SchemaRegistry(f"http://127.0.0.1:{port}").schema(1)
    registry.instead = (200, {}, b"<html>hello</html>")
    with pytest.raises(RegistryError, match="its response is not a JSON object"):
        SchemaRegistry(registry.url).schema(1)
    registry.instead = (200, {}, b'{"id": "one"}')
    with pytest.raises(RegistryError, match="its response has no schema"):
        SchemaRegistry(registry.url).schema(1)
    registry.instead = (500, {}, b"oops")
    with pytest.raises(RegistryError, match=r"no reason given \(HTTP 500\)"):
        SchemaRegistry(registry.url).schema(1)
    registry.instead = None
    registry.silent.set()
    started = time.monotonic()
    with pytest.raises(RegistryError, match="no response"):
        SchemaRegistry(registry.url, timeout=0.3).schema(1)
    assert time.monotonic() - started < 5


def test_the_next_registry_is_asked_when_one_fails(registry):
    with FakeRegistry() as broken:
        broken.instead = (503, {}, b"")
        registry.add("t", "int")
        both = SchemaRegistry(f"{broken.url},{registry.url}")
        assert both.schema(1).text == '"int"'
        with pytest.raises(RegistryError, match="Schema not found"):
            both.schema(9)
        assert len(broken.requests) == 2


@pytest.mark.parametrize("url", ["localhost:8081", "file:///etc/passwd", "http://", "", "http://u:secret@h:port"])
def test_what_is_no_url_is_refused_without_showing_its_password(url):
    with pytest.raises(ConfigError, match="http://host:8081") as caught:
        SchemaRegistry(url)
    assert "secret" not in str(caught.value)


def test_wrong_settings_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="timeout"):
        SchemaRegistry("http://localhost", timeout=0)
    with pytest.raises(ConfigError, match="ca_file"):
        SchemaRegistry("https://localhost", ca_file=str(tmp_path / "none.pem"))
    with pytest.raises(ConfigError, match="contains no URL"):
        SchemaRegistry([])


def test_without_fastavro_the_extra_is_named(monkeypatch):
    from seamark.client.serde import avro

    avro._fastavro.cache_clear()
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingExtra, match=r"pip install 'seamark\[avro\]'"):
        Avro("http://localhost")

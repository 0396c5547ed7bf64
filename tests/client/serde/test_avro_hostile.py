"""A registry, a schema or a datum of a stranger costs a bounded amount, and is refused with a sentence."""

import io
import json
import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client.serde import schema_registry
from seamark.client.serde.avro import Avro, _parsed
from seamark.client.serde.avro_bounds import DEEPEST_DATUM, MOST_FREE_VALUES, TooDeep
from seamark.client.serde.schema_registry import KeptSchemas, RegistryError, SchemaRegistry
from seamark.errors import UsageError
from tests.support.schema_registry import FakeRegistry

fastavro = pytest.importorskip("fastavro")

LIST = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "label", "type": ["null", "string", "double"]},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
        {"name": "children", "type": {"type": "array", "items": "Tree"}},
        {"name": "by_name", "type": {"type": "map", "values": ["boolean", "Tree"]}},
    ],
}


@pytest.fixture
def registry():
    with FakeRegistry() as made:
        yield made


def record(name, *types):
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": each} for n, each in enumerate(types)]}


def behind_id(datum: bytes, schema_id: int = 1) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + datum


def long(number: int) -> bytes:
    number = ((number << 1) ^ (number >> 63)) & (1 << 64) - 1
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


# -- data


@pytest.mark.parametrize("levels", [DEEPEST_DATUM, 20_000, 1_000_000])
def test_a_datum_that_is_nested_without_end_is_refused_before_it_can_end_the_process(registry, levels):
    registry.add("t-value", LIST)
    with pytest.raises(ValueError, match="the datum is nested more than 1000 levels deep"):
        Avro(registry.url)(behind_id(b"\x02" * levels + b"\x00"))


def test_a_datum_that_ends_before_it_says_is_told_by_the_reader(registry):
    registry.add("t-value", LIST)
    with pytest.raises(EOFError):
        Avro(registry.url)(behind_id(b"\x02" * 300))


def test_a_list_of_some_hundred_levels_is_read(registry):
    registry.add("t-value", LIST)
    datum, depth = Avro(registry.url)(behind_id(b"\x02" * 400 + b"\x00")), 0
    while datum["next"] is not None:
        datum, depth = datum["next"], depth + 1
    assert depth == 400


trees = st.recursive(
    st.fixed_dictionaries(
        {
            "label": st.none() | st.text(max_size=5) | st.floats(allow_nan=False),
            "mark": st.binary(min_size=2, max_size=2),
            "kind": st.sampled_from(["a", "b"]),
            "children": st.just([]),
            "by_name": st.dictionaries(st.text(max_size=3), st.booleans(), max_size=2),
        }
    ),
    lambda below: st.builds(
        lambda base, children, named: {**base, "children": children, "by_name": named},
        below,
        st.lists(below, max_size=3),
        st.dictionaries(st.text(max_size=3), below | st.booleans(), max_size=2),
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_honest_data_of_a_schema_that_refers_to_itself_is_read_as_ever(tree):
    schema, bounds = _parsed(json.dumps(TREE), [])
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, tree)
    assert bounds.is_recursive
    bounds.check(out.getvalue(), 0)
    with pytest.raises(TooDeep):
        # A list whose only item is the tree, in a list whose only item is that one, and so on.
        bounds.check((long(0) + b"\x00\x00\x00" + long(1)) * 600 + out.getvalue(), 0)


@pytest.mark.parametrize(
    "kind", ["string", "bytes", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}]
)
@pytest.mark.parametrize("count", [2**62, 2**31, -1, -(2**62)])
def test_lengths_and_counts_that_lie_are_errors_and_cost_nothing(registry, kind, count):
    registry.add("t-value", kind)
    with pytest.raises((EOFError, ValueError)):
        Avro(registry.url)(behind_id(long(count) + b"\x02\x02"))


# -- schemas

UNSAFE = {
    "an array of nulls": ({"type": "array", "items": "null"}, "an array whose items take no bytes"),
    "an array of empty records": ({"type": "array", "items": record("E")}, "an array whose items take no bytes"),
    "an array of nothing behind names": (
        record("A", record("E", "null"), {"type": "array", "items": "E"}),
        "an array whose items take no bytes",
    ),
    "records that double": (
        [record("R0", "null"), *(record(f"R{n}", f"R{n - 1}", f"R{n - 1}") for n in range(1, 40))],
        "values that take no bytes, allowed are 100",
    ),
    "an item with free values": (
        {"type": "array", "items": record("F", "boolean", *["null"] * (MOST_FREE_VALUES + 1))},
        "record 'F' has 101 values that take no bytes, allowed are 100",
    ),
    "a chain of records": (
        [record("R0", "int"), *(record(f"R{n}", f"R{n - 1}") for n in range(1, 5000))],
        "are nested more than 1000 levels deep",
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_schema_by_which_few_bytes_become_many_values_is_refused(registry, name):
    schema, reason = UNSAFE[name]
    registry.add("t-value", schema)
    with pytest.raises(UsageError, match=f"the schema cannot be used safely: .*{reason}"):
        Avro(registry.url)(behind_id(long(2**62) + b"\x00"))


@pytest.mark.parametrize("levels", [201, 10_000, 100_000])
def test_a_schema_that_is_nested_without_end_is_refused(registry, levels):
    registry.schemas[1] = {"schema": '{"type":"array","items":' * levels + '"int"' + "}" * levels}
    with pytest.raises(UsageError, match="nested more than 200 levels deep"):
        Avro(registry.url)(behind_id(b"\x00"))


def test_a_record_that_always_holds_itself_has_no_datum(registry):
    registry.add("t-value", record("N", "N"))
    with pytest.raises(ValueError, match="nested more than 1000 levels deep"):
        Avro(registry.url)(behind_id(b""))


def test_what_is_wrong_with_a_large_schema_is_told_in_a_short_sentence(registry):
    registry.add("t-value", {"type": "x" * 100_000})
    with pytest.raises(UsageError) as caught:
        Avro(registry.url)(behind_id(b""))
    assert len(str(caught.value)) < 500


# -- the registry


@contextmanager
def answering(*pieces: bytes, forever: bytes = b"", every: float = 0.0):
    """A server that sends the pieces to whoever comes, and then the last again and again."""
    stopped = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while not stopped.is_set():
                client, _ = server.accept()
                with client, suppress(OSError):
                    client.recv(65536)
                    for piece in pieces:
                        client.sendall(piece)
                    while forever and not stopped.wait(every):
                        client.sendall(forever)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        stopped.set()
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"


@pytest.mark.parametrize(
    ("pieces", "forever", "reason"),
    [
        ((OK, b"Transfer-Encoding: chunked\r\n\r\n"), CHUNK, "its response is larger than 4194304 bytes"),
        ((OK, b"Content-Length: 1073741824\r\n\r\n"), CHUNK, "its response is larger than 4194304 bytes"),
        ((OK, b"X: "), b"x" * 65536, "its response is not HTTP"),
        ((OK,), b"X: y\r\n" * 1000, "its response is not HTTP"),
        ((b"SSH-2.0-OpenSSH\x1b[2J\r\n\r\n",), b"", "its response is not HTTP"),
        ((OK, b"\r\n" + b'{"a":' * 100_000), b"", "its response is not a JSON object"),
        ((OK, b"\r\n", b"[" * 100_000 + b"]" * 100_000), b"", "its response is not a JSON object"),
        ((OK, b"\r\n", b'{"schema": "1", "id": 1}' * 2), b"", "its response is not a JSON object"),
        ((b"HTTP/1.1 500 E\r\n\r\n", json.dumps({"message": "\x9b" * 9999}).encode()), b"", r"\(HTTP 500\)"),
        ((b"HTTP/1.1 307 E\r\nLocation: http://127.0.0.1:1/\r\n\r\n",), b"", r"\(HTTP 307\)"),
    ],
)
def test_whatever_a_registry_answers_is_one_bounded_sentence(pieces, forever, reason):
    with answering(*pieces, forever=forever) as url, pytest.raises(RegistryError, match=reason) as caught:
        SchemaRegistry(url, timeout=10).schema(1)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("pieces", [(OK, b"Content-Length: 9\r\n\r\n"), (OK, b"\r\n"), (OK, b"X: ")])
def test_an_answer_that_comes_a_byte_at_a_time_is_given_up_at_the_time_limit(pieces):
    late = pytest.raises(RegistryError, match=r"no response within 0\.3 s")
    with answering(*pieces, forever=b" ", every=0.1) as url, late:
        SchemaRegistry(url, timeout=0.3).schema(1)


def test_schemas_that_refer_to_ever_more_schemas_are_given_up(registry):
    def chained(method, path, content):
        number = int(path[1].removeprefix("s") or 0) if path[0] == "subjects" else 0
        needed = [{"name": f"S{number + 1}", "subject": f"s{number + 1}", "version": 1}]
        return 200, {"id": number, "schema": '"int"', "references": needed}

    registry._answer = chained
    with pytest.raises(RegistryError, match="nested more than 20 levels deep"):
        Avro(registry.url)(behind_id(b"\x00"))
    assert len(registry.requests) < 30

    def wide(method, path, content):
        needed = [{"name": f"S{n}", "subject": f"s{n}", "version": 1} for n in range(1000)]
        return 200, {"id": 2, "schema": '"int"', "references": needed if path[0] == "schemas" else []}

    registry.requests.clear()
    registry._answer = wide
    with pytest.raises(RegistryError, match="has more than 100 references"):
        Avro(registry.url)(behind_id(b"\x00"))
    assert len(registry.requests) <= 102


@pytest.mark.parametrize("number", [-1, 2**32, 2**70])
def test_an_id_that_does_not_fit_four_bytes_is_refused(registry, number):
    registry.instead = (200, {}, json.dumps({"id": number, "schema": '"int"'}).encode())
    with pytest.raises(RegistryError, match="its id is not a 32-bit integer"):
        Avro(registry.url).encode("t", "value", 1)


def test_an_id_whose_schema_the_registry_changes_keeps_the_first(registry):
    registry.add("t-value", "int")
    avro = Avro(registry.url)
    assert avro(behind_id(b"\x0e")) == 7
    registry.schemas[1] = {"schema": '"string"'}
    assert avro(behind_id(b"\x0e")) == 7


def test_what_is_kept_of_schemas_is_bounded(monkeypatch):
    monkeypatch.setattr(schema_registry, "MAX_KEPT_SIZE", 1000)
    monkeypatch.setattr(schema_registry, "MAX_KEPT_SCHEMAS", 5)
    kept = KeptSchemas()
    for number in range(100):
        kept.keep(number, "x", 10)
    assert list(kept) == [95, 96, 97, 98, 99]
    kept.keep(100, "large", 5000)
    assert list(kept) == [100]
    kept.keep(101, "x", 900)
    kept.keep(101, "x", 900)
    assert (list(kept), kept.size) == ([101], 900)

"""Records as lines of text: each form is read as it is meant, and what is not meant is refused with its line."""

import io
import json

import pytest

from seamark.cli.records.record_lines import RecordLine, json_of, record_lines
from seamark.errors import UsageError

BEFORE = {"json": '{"value": null}\n{"value": "two"}\n', "csv": "key,value\nk,v\n", "lines": "a=b\nc=d\n"}


def read(text, form, key_ends=""):
    return list(record_lines(io.StringIO(text, newline=""), form, key_ends))


@pytest.mark.parametrize(
    ("form", "line", "sentence"),
    [
        ("json", '{"key": "k", "valu": "v"}', "line 3: unknown field 'valu'; did you mean 'value'?"),
        ("json", '{"value": "v", "timestamp": 5}', "line 3: unknown field 'timestamp'; did you mean 'timestamp_ms'?"),
        ("json", '{"value": "v", "x": 5}', "line 3: unknown field 'x'; known: key, value, headers,"),
        ("json", '{"key": "k"}', 'line 3: "value" is missing; write a tombstone as'),
        ("json", '{"value": "v", "value": null}', "line 3: field 'value' appears twice"),
        ("json", "[1, 2]", 'line 3: must be an object such as {"key": "k", "value": "v"}, not [1, 2]'),
        ("json", "7", "line 3: must be an object"),
        ("json", "{", "line 3: not JSON ("),
        ("json", '{"value": "v", "partition": "1"}', "line 3: 'partition' must be an integer >= 0 or null"),
        ("json", '{"value": "v", "timestamp_ms": 1.5}', "line 3: 'timestamp_ms' must be an integer"),
        ("json", '{"value": "v", "headers": {"a": "b"}}', "line 3: 'headers' must be a list of pairs such as"),
        ("json", '{"value": "v", "headers": [["a"]]}', "line 3: 'headers' must be a list of pairs such as"),
        ("json", '{"value": {"base64": "?"}}', "line 3: 'value' is not valid base64: '?'"),
        ("json", '{"value": "\\ud800"}', "line 3: 'value' contains an unpaired surrogate"),
        ("csv", "only-a-key", "line 3: 1 fields, but the header has 2"),
        ("csv", "a,b,c", "line 3: 3 fields, but the header has 2"),
        ("lines", "no mark", "line 3: no '=' between key and value"),
    ],
)
def test_a_line_that_is_no_record_is_named_after_those_before_it_were_read(form, line, sentence):
    found = []
    with pytest.raises(UsageError) as refused:
        found.extend(record_lines(io.StringIO(BEFORE[form] + line + "\n"), form, "="))
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        ("kye,value", "line 1: unknown column 'kye'; did you mean 'key'?"),
        ("value,value", "line 1: column 'value' appears twice"),
        ("key", "line 1: the header of a CSV file must contain the column value"),
        ("", "line 1: the header of a CSV file must contain the column value"),
    ],
)
def test_columns_of_a_csv_file_are_known_by_name(first, sentence):
    with pytest.raises(UsageError) as refused:
        read(f"{first}\na,b\n", "csv")
    assert str(refused.value).startswith(sentence)


def test_only_an_explicit_null_is_a_tombstone():
    assert read('{"key": "k", "value": null}', "json") == [RecordLine(1, b"k", None)]
    assert read("key,value\nk,\n", "csv") == [RecordLine(2, b"k", b"")]
    assert read("\n", "lines") == [RecordLine(1, None, b"")]


def test_every_field_of_json_is_read():
    line = {
        "topic": "t", "offset": 3, "partition": 1, "timestamp_ms": 5, "key": {"base64": "//4="}, "value": {"id": 7},
        "headers": [["a", "b"], ["a", None]],
    }  # fmt: skip
    (found,) = read("\n" + json.dumps(line) + "\r\n", "json")
    assert found == RecordLine(2, b"\xff\xfe", b'{"id": 7}', (("a", b"b"), ("a", None)), 1, 5)
    assert json_of(found.key) == line["key"]


def test_a_record_of_csv_may_span_lines():
    assert read('value,key\n"a\nb",\n\nc,k\n', "csv") == [RecordLine(3, None, b"a\nb"), RecordLine(5, b"k", b"c")]


def test_input_that_is_not_text_is_said_to_be_so():
    source = io.TextIOWrapper(io.BytesIO(b"text\n\xff\xfe\n"), encoding="utf-8")
    with pytest.raises(UsageError, match="the input is not UTF-8"):
        list(record_lines(source, "lines"))


@pytest.mark.parametrize(("form", "text"), [("csv", "value\n\udcff\n"), ("lines", "a=b\n\udcff=x\n")])
def test_bytes_that_python_read_leniently_are_refused_in_a_sentence(form, text):
    with pytest.raises(UsageError, match="line 2: the input is not UTF-8"):
        read(text, form, "=")

"""Files of offsets: what was exported is read again, and a file that says something else is refused by name."""

import json

import pytest

from seamark.client import Offset, TopicPartition
from seamark.errors import UsageError
from seamark.monitor.offset_file import ANY_GROUP, offsets_csv, offsets_json, read_offsets

ENTRY = {"topic": "t", "partition": 0, "offset": 5}
GROUPS = {"g": {TopicPartition("t", 0): Offset(5, "note", 2), TopicPartition("t", 1): Offset(7)}}


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        (tmp_path / "f").write_text(text)
        return read_offsets(tmp_path / "f")

    return read_text


def of(**fields):
    return json.dumps({"format": "seamark.offsets", "version": 1, "groups": {"g": [ENTRY]}} | fields)


def with_entry(**fields):
    return of(groups={"g": [ENTRY | fields]})


def test_what_was_written_is_read_again(read):
    assert read(offsets_json("cluster", GROUPS)) == GROUPS
    # CSV says nothing of metadata, so a plan may keep what the group has.
    plain = {"g": {partition: each.offset for partition, each in GROUPS["g"].items()}}
    assert read(offsets_csv(GROUPS)) == plain
    assert read("t,0,5\n\nt,1,7\n") == {ANY_GROUP: plain["g"]}


@pytest.mark.parametrize("text", [offsets_json("cluster", GROUPS), offsets_csv(GROUPS)])
def test_a_byte_order_mark_is_no_part_of_the_first_groups_name(read, text):
    assert read(f"\ufeff{text}") == read(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"g,t,0,{'9' * 5000}\n", "line 1: 99999999999999999999… is larger than any offset"),
        (f"g,t,0,{2**63}\n", "line 1: 9223372036854775808… is larger than any offset"),
        (f"g,t,0,1\ng,{'t' * 140_000},0,5\n", "line 2: not CSV (field larger than field limit"),
        (with_entry(offset=2**63), "'offset' is larger than any offset"),
        ("{" + '"a":[' * 100_000, "not valid JSON"),
    ],
)
def test_what_python_cannot_read_is_refused_in_a_sentence(read, text, sentence):
    with pytest.raises(UsageError) as refused:
        read(text)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (of(grups={}), "unknown field 'grups'; did you mean 'groups'?"),
        (with_entry(metdata="x"), "an entry of group 'g' is not an offset: unknown field 'metdata'; did you mean"),
        (with_entry(offset="5"), "'offset' must be an integer >= 0, got '5'"),
        (with_entry(offset=None), "'offset' must be an integer >= 0, got None"),
        (with_entry(partition=True), "'partition' must be an integer >= 0, got True"),
        (with_entry(offset=-1), "'offset' must be an integer >= 0, got -1"),
        (with_entry(topic=7), "'topic' must be a string, got 7"),
        (with_entry(metadata=7), "'metadata' must be a string, got 7"),
        (with_entry(leader_epoch=1.5), "'leader_epoch' must be an integer >= -1, got 1.5"),
        (of(groups={"g": [{"topic": "t", "partition": 0}]}), "'offset' is missing"),
        (of(groups={"g": [ENTRY, ENTRY]}), "group 'g' has t-0 twice"),
        (of(groups={"g": 5}), "expected an object"),
        (of().replace('"offset": 5', '"offset": 5, "offset": 6'), "field 'offset' appears twice"),
        ("g,t,0,5\ng,t,0,6\n", "line 2: t-0 of group 'g' appears twice"),
        ("t,0,5\nt,0,6\n", "line 2: t-0 appears twice"),
        ("t,0,1_0\n", "line 1: partition and offset must be integers >= 0"),
        ("topic,partition,offset\n", "line 1: partition and offset must be integers >= 0"),
    ],
)
def test_a_file_with_anything_else_in_it_is_refused_by_name(read, text, sentence):
    with pytest.raises(UsageError) as refused:
        read(text)
    assert sentence in str(refused.value)

"""``seamark topics``, ``produce`` and ``consume`` as a person calls them, on each broker."""

import json
import time

import pytest

from seamark.counts import counted

AT_MS = int(time.time() * 1000) - 1000


@pytest.fixture
def topic(seamark, fresh_name):
    name = fresh_name("topic")
    assert seamark("topics", "create", name, "--partitions", "2", "--replicas", "1")[0] == 0
    return name


def test_a_topic_is_made_described_changed_and_deleted(seamark, topic):
    assert topic in [row["topic"] for row in json.loads(seamark("topics", "list", "--json")[1])]
    rows = json.loads(seamark("topics", "describe", topic, "--json")[1])
    assert [(row["partition"], row["log_end"]) for row in rows] == [(0, 0), (1, 0)]
    changed = json.loads(seamark("topics", "config", topic, "--set", "retention.ms=1234567", "--json")[1])
    assert {row["setting"]: row["value"] for row in changed}["retention.ms"] == "1234567"
    back = json.loads(seamark("topics", "config", topic, "--unset", "retention.ms", "--json")[1])
    assert "retention.ms" not in {row["setting"] for row in back}
    assert "would be deleted" in seamark("topics", "delete", topic)[1]
    assert seamark("topics", "delete", topic, "--apply")[0] == 0
    code, _, err = seamark("topics", "describe", topic + "x")
    assert (code, "there is no topic" in err) == (1, True)


def test_what_consume_writes_as_json_produce_reads_again(seamark, topic, tmp_path):
    lines = [
        {"key": "a", "value": "one", "headers": [["h", "x"], ["n", None]], "partition": 1, "timestamp_ms": AT_MS},
        {"key": None, "value": None, "headers": [], "partition": 1},
        {"key": "b", "value": {"base64": "//4="}, "headers": [], "partition": 1},
    ]
    (tmp_path / "in").write_text("\n".join(map(json.dumps, lines)))
    code, _, err = seamark("produce", topic, "--as", "json", "--file", "in")
    assert (code, "3 records" in err) == (0, True)
    found = [json.loads(line) for line in seamark("consume", topic, "--json")[1].splitlines()]
    assert [{name: each[name] for name in ("key", "value", "headers")} for each in found] == [
        {name: each[name] for name in ("key", "value", "headers")} for each in lines
    ]
    assert found[0]["timestamp_ms"] == AT_MS


def test_lines_are_written_with_keys_and_read_by_filters_and_places(seamark, topic, tmp_path):
    (tmp_path / "in").write_text("".join(f"k{number}=v{number}\n" for number in range(20)))
    assert seamark("produce", topic, "--key-ends", "=", "--file", "in")[0] == 0
    assert len(seamark("consume", topic)[1].splitlines()) == 20
    only = seamark("consume", topic, "--key", "^k7$")[1].splitlines()
    assert [line.split("\t")[1] for line in only] == ["v7"]
    assert len(seamark("consume", topic, "--limit", "3")[1].splitlines()) == 3
    assert seamark("consume", topic, "--from", "latest")[1] == ""
    one = seamark("consume", topic, "--partition", "0", "--from", "offset:1")[1].splitlines()
    assert [int(line.split()[0].split(":")[1]) for line in one] == list(range(1, len(one) + 1))


def test_reading_from_an_offset_outside_the_log_is_refused_and_does_not_start_over(seamark, topic, tmp_path):
    (tmp_path / "in").write_text('{"value": "x", "partition": 1}')
    code, _, err = seamark("produce", topic, "--as", "json", "--file", "in")
    assert (code, err) == (0, f"1 record stored in topic {topic!r}\n")
    code, out, err = seamark("consume", topic, "--from", "offset:99", "--partition", "1")
    assert (code, out) == (1, "")
    assert f"{topic}-1: offset 99 is 98 offsets after the end of the log (0 to 1)" in err


def test_a_topic_that_the_cluster_creates_when_it_is_written_to_gets_the_records(seamark, fresh_name, tmp_path):
    name = fresh_name("created")
    (tmp_path / "in").write_text("one\ntwo\n")
    code, _, err = seamark("produce", name, "--file", "in")
    assert (code, err.splitlines()[-1]) == (0, f"2 records stored in topic {name!r}")
    assert sorted(line.split("\t")[1] for line in seamark("consume", name)[1].splitlines()) == ["one", "two"]


@pytest.mark.parametrize("more", [[], ["--group", "readers"]])
def test_a_topic_that_does_not_exist_is_named_and_not_waited_for(seamark, fresh_name, more):
    name = fresh_name("absent")
    code, out, err = seamark("consume", name, *more)
    assert (code, out, err) == (1, "", f"seamark: there is no topic {name!r}\n")


def test_a_member_goes_on_behind_what_an_earlier_call_wrote_out(seamark, topic, tmp_path, fresh_name):
    (tmp_path / "in").write_text("".join(f"v{number}\n" for number in range(10)))
    seamark("produce", topic, "--file", "in")
    group = fresh_name("group")
    first = seamark("consume", topic, "--group", group, "--limit", "4")[1].splitlines()
    rest = seamark("consume", topic, "--group", group)[1].splitlines()
    values = [line.split("\t")[1] for line in first + rest]
    assert (len(first), sorted(values)) == (4, sorted(f"v{number}" for number in range(10)))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["produce", "t", "--as", "xml"], "is not one of"),
        (["produce", "t", "--file", "not-there"], "cannot be read"),
        (["consume", "t", "--key", "("], "not a regular expression"),
        (["consume", "t", "--group", "g", "--from", "offset:3"], "cannot be combined with --partition or --from"),
        (["consume", "t", "--group", "g", "--from", "earliest"], "cannot be combined with --partition or --from"),
        (["consume", "t", "--group", "g", "--from", "latest"], "use -o auto.offset.reset=latest"),
        (["topics", "create", "t", "--set", "x"], "KEY=VALUE"),
    ],
)
def test_wrong_words_are_answered_with_a_sentence_and_code_2(seamark, words, sentence):
    code, _, err = seamark(*words)
    assert (code, sentence in err) == (2, True)


@pytest.mark.parametrize(
    ("form", "line", "sentence"),
    [
        ("json", '{"key": "k", "valu": "v"}', "line 3: unknown field 'valu'; did you mean 'value'?"),
        ("json", '{"value": "v", "partition": 9}', "line 3: the record is for partition 9 of topic"),
        ("csv", "only-a-key", "line 3: 1 fields, but the header has 2"),
        ("lines", "no mark", "line 3: no '=' between key and value"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_what_came_before_it_is_stored(
    seamark, topic, tmp_path, form, line, sentence
):
    before = {"json": '{"value": null}\n{"value": "two"}\n', "csv": "key,value\nk,v\n", "lines": "a=b\nc=d\n"}[form]
    (tmp_path / "in").write_text(before + line + '\n{"value": "never read"}\n')
    code, _, err = seamark("produce", topic, "--as", form, "--file", "in", *(["--key-ends", "="] * (form == "lines")))
    stored = 1 if form == "csv" else 2
    assert code == 2
    assert f"{counted(stored, 'record')} stored in topic {topic!r}\n" in err
    assert sentence in err
    assert len(seamark("consume", topic)[1].splitlines()) == stored


def test_records_that_the_broker_refuses_end_the_command_with_how_many_were_stored(seamark, topic, tmp_path):
    assert seamark("topics", "config", topic, "--set", "max.message.bytes=20000")[0] == 0
    lines = [json.dumps({"value": value, "partition": 0}) for value in ("a", "x" * 30_000, "b")]
    (tmp_path / "in").write_text("\n".join(lines))
    code, _, err = seamark("produce", topic, "--as", "json", "--file", "in", "-o", "batch.size=100")
    assert code == 1
    assert f"2 records stored in topic {topic!r}" in err
    assert f"1 of 3 records were not delivered: 1 to topic {topic!r}: " in err


@pytest.mark.parametrize("is_file", [True, False])
def test_a_byte_order_mark_is_no_part_of_the_first_record(seamark, topic, tmp_path, monkeypatch, is_file):
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbffirst\n")
    if not is_file:
        monkeypatch.setattr("sys.stdin", (tmp_path / "in").open(encoding="ascii", errors="surrogateescape"))
    assert seamark("produce", topic, *(["--file", "in"] if is_file else []))[0] == 0
    assert seamark("consume", topic)[1].rstrip("\n").endswith("\tfirst")


def test_standard_input_that_is_not_utf_8_is_refused_in_a_sentence(seamark, topic, tmp_path, monkeypatch):
    (tmp_path / "in").write_bytes(b"value\n\xff\n")
    monkeypatch.setattr("sys.stdin", (tmp_path / "in").open(encoding="utf-8", errors="surrogateescape"))
    code, _, err = seamark("produce", topic, "--as", "csv")
    assert code == 2
    assert "the input is not UTF-8" in err

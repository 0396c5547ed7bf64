"""``seamark groups`` and ``seamark lag`` as a person calls them, on each broker."""

import csv
import io
import json
import time

import pytest

from seamark.client import Consumer, Offset, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.wire.offsets import done_ahead
from tests.support.checkpoints import checkpoint
from tests.support.produced import produce


@pytest.fixture
def topic(kafka_like, admin, fresh_name):
    """Two partitions with ten records each, written two days ago."""
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name, 2, 1)]).raise_if_failed()
    for index in range(2):
        two_days_ago_ms = int(time.time() * 1000) - 2 * 86_400_000
        produce(kafka_like.bootstrap, TopicPartition(name, index), [b"x"] * 10, two_days_ago_ms)
    return name


@pytest.fixture
def group(admin, topic, fresh_name):
    """Committed 4 and 6, no members."""
    name = fresh_name("group")
    offsets = {TopicPartition(topic, 0): Offset(4, "mine"), TopicPartition(topic, 1): Offset(6)}
    admin.alter_group_offsets(name, offsets).raise_if_failed()
    return name


def committed(admin, group):
    return {each.partition: offset.offset for each, offset in admin.list_group_offsets([group])[group].items()}


# covers: M1, M2
def test_describe_has_the_columns_and_numbers_of_kafkas_tool(seamark, group, topic):
    code, out, _ = seamark("groups", "describe", group)
    head, *rows = [line.split() for line in out.splitlines()]
    assert head == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert rows == [
        [group, topic, "0", "4", "10", "6", "-", "-", "-"],
        [group, topic, "1", "6", "10", "4", "-", "-", "-"],
    ]
    assert code == 0


# covers: M2
def test_an_owned_partition_without_a_commit_has_dashes_for_offset_and_lag(seamark, kafka_like, topic, fresh_name):
    name = fresh_name("group")
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=name, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        found = json.loads(seamark("groups", "describe", name, "--json")[1])
        who = json.loads(seamark("groups", "members", name, "--json")[1])
        refused = seamark("groups", "reset", name, "--topic", topic, "--to", "latest", "--apply")
    assert [(row["current_offset"], row["lag"], row["log_end_offset"]) for row in found] == [(None, None, 10)] * 2
    assert {row["consumer_id"] for row in found} == {who[0]["member"]}
    assert who[0]["assignment"] == f"{topic}-0 {topic}-1"
    assert refused[0] == 1
    assert "1 member" in refused[2]


def test_list_sorts_by_lag_and_shows_the_state(seamark, group):
    rows = list(csv.DictReader(io.StringIO(seamark("groups", "list", "--sort", "lag", "--csv")[1])))
    lags = [int(row["lag"] or 0) for row in rows]
    assert lags == sorted(lags, reverse=True)
    (mine,) = [row for row in rows if row["group"] == group]
    assert (mine["state"], mine["lag"], mine["members"]) == ("Empty", "10", "0")


def test_a_mistyped_group_is_answered_with_the_nearest(seamark, group):
    code, _, err = seamark("groups", "describe", group[:-1] + "x" + group[-1])
    assert code == 1
    assert f"did you mean {group!r}?" in err


def test_a_reset_is_shown_first_then_applied_from_its_plan_and_taken_back(seamark, admin, group, topic):
    code, out, err = seamark("groups", "reset", group, "--to", "offset:9", "--plan", "p.json", "--json")
    rows = json.loads(out)
    assert [(row["before"], row["after"], row["skipped"], row["repeated"]) for row in rows] == [
        (4, 9, 5, 0),
        (6, 9, 3, 0),
    ]
    assert (code, committed(admin, group)) == (0, {0: 4, 1: 6})
    assert "nothing was changed" in err
    code, _, err = seamark("groups", "reset", "--plan", "p.json", "--apply")
    assert (code, committed(admin, group)) == (0, {0: 9, 1: 9})
    code, _, _ = seamark("groups", "undo", "p.json", "--apply")
    assert (code, committed(admin, group)) == (0, {0: 4, 1: 6})
    assert admin.list_group_offsets([group])[group][TopicPartition(topic, 0)].metadata == "mine"


def test_a_plan_can_be_applied_and_taken_back_again(seamark, admin, group):
    seamark("groups", "reset", group, "--to", "latest", "--plan", "p.json")
    for _ in range(2):
        assert seamark("groups", "reset", "--plan", "p.json", "--apply")[0] == 0
        assert committed(admin, group) == {0: 10, 1: 10}
        assert seamark("groups", "undo", "p.json", "--apply")[0] == 0
        assert committed(admin, group) == {0: 4, 1: 6}


def test_a_plan_gone_stale_changes_nothing(seamark, admin, group, topic):
    seamark("groups", "reset", group, "--to", "earliest", "--plan", "p.json")
    admin.alter_group_offsets(group, {TopicPartition(topic, 1): 7}).raise_if_failed()
    code, _, err = seamark("groups", "reset", "--plan", "p.json", "--apply")
    assert code == 1
    assert f"{topic}-1" in err
    assert committed(admin, group) == {0: 4, 1: 7}


@pytest.mark.parametrize(
    ("to", "expected"),
    [("earliest", {0: 0, 1: 0}), ("latest", {0: 10, 1: 10}), ("shift:-4", {0: 0, 1: 2}), ("ago:1d", {0: 10, 1: 10})],
)
def test_each_way_to_reset_sets_what_it_says(seamark, admin, group, to, expected):
    assert seamark("groups", "reset", group, "--to", to, "--apply")[0] == 0
    assert committed(admin, group) == expected


OUTSIDE = [
    # The target, the first partition it is refused for with the offset asked for, and what --clamp sets.
    ("offset:99", 0, "offset 99 is 89 offsets after the end of the log (3 to 10)", {0: 10, 1: 10}),
    ("offset:2", 0, "offset 2 is 1 offset before the start of the log (3 to 10)", {0: 3, 1: 2}),
    ("shift:-5", 0, "offset -1 is 4 offsets before the start of the log (3 to 10)", {0: 3, 1: 1}),
    ("shift:5", 1, "offset 11 is 1 offset after the end of the log (0 to 10)", {0: 9, 1: 10}),
    ("file:far.csv", 1, "offset 12 is 2 offsets after the end of the log (0 to 10)", {0: 4, 1: 10}),
    ("group:{other}", 1, "offset 40 is 30 offsets after the end of the log (0 to 10)", {0: 5, 1: 10}),
]


@pytest.mark.parametrize(("to", "where", "sentence", "clamped"), OUTSIDE, ids=[each[0] for each in OUTSIDE])
def test_a_reset_outside_the_log_is_refused_unless_the_nearest_end_is_asked_for(
    seamark, admin, group, topic, fresh_name, tmp_path, to, where, sentence, clamped
):
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.delete_records({first: 3}).raise_if_failed()
    other = fresh_name("other")
    admin.alter_group_offsets(other, {first: 5, second: 40}).raise_if_failed()
    (tmp_path / "far.csv").write_text(f"{topic},0,4\n{topic},1,12\n")
    reset = ("groups", "reset", group, "--to", to.format(other=other))
    for words in (reset, (*reset, "--apply")):
        code, _, err = seamark(*words)
        assert (code, f"{topic}-{where}: {sentence}" in err) == (1, True), err
        assert "--clamp uses the nearest end of the log" in err
        assert committed(admin, group) == {0: 4, 1: 6}
    # Nothing is left behind that a second attempt would find in its way.
    assert list(tmp_path.glob("seamark-plan-*")) == []
    code, _, err = seamark(*reset, "--clamp", "--apply")
    assert (code, f"{topic}-{where}: {sentence}" in err) == (0, True), err
    assert committed(admin, group) == clamped


def test_an_offset_outside_the_log_is_set_as_it_is_by_one_who_says_so(seamark, admin, group, topic):
    reset = ("groups", "reset", group, "--topic", f"{topic}:0", "--to", "offset:99")
    assert seamark(*reset, "--allow-outside-log", "--apply")[0] == 0
    assert committed(admin, group) == {0: 99, 1: 6}
    code, _, err = seamark(*reset, "--allow-outside-log", "--clamp")
    assert (code, "cannot be combined" in err) == (2, True)


def test_an_import_outside_the_log_is_refused_unless_the_nearest_end_is_asked_for(
    seamark, admin, group, topic, tmp_path
):
    (tmp_path / "far.csv").write_text(f"{group},{topic},1,12\n")
    for more in ((), ("--apply",)):
        code, _, err = seamark("groups", "import", "far.csv", *more)
        assert (code, f"{topic}-1: offset 12 is 2 offsets after the end of the log (0 to 10)" in err) == (1, True)
        assert "--clamp" in err
        assert committed(admin, group) == {0: 4, 1: 6}
    assert seamark("groups", "import", "far.csv", "--clamp", "--apply")[0] == 0
    assert committed(admin, group) == {0: 4, 1: 10}


def test_a_plan_is_refused_when_the_log_moved_past_it_and_so_is_its_undo(seamark, admin, group, topic):
    first = TopicPartition(topic, 0)
    assert seamark("groups", "reset", group, "--to", "shift:-3", "--plan", "back.json")[0] == 0
    assert seamark("groups", "reset", group, "--to", "latest", "--plan", "on.json")[0] == 0
    admin.delete_records({first: 5}).raise_if_failed()
    for more in ((), ("--apply",)):
        code, _, err = seamark("groups", "reset", "--plan", "back.json", *more)
        assert (code, f"{first}: offset 1 is 4 offsets before the start of the log (5 to 10)" in err) == (1, True)
        assert "make a new plan with --clamp" in err
    code, _, err = seamark("groups", "reset", "--plan", "back.json", "--clamp")
    assert (code, "--clamp needs --to" in err) == (2, True)
    assert committed(admin, group) == {0: 4, 1: 6}
    assert seamark("groups", "reset", "--plan", "on.json", "--apply")[0] == 0
    for more in ((), ("--apply",)):
        code, _, err = seamark("groups", "undo", "on.json", *more)
        assert (code, f"{first}: offset 4 is 1 offset before the start" in err, "--clamp" in err) == (1, True, True)
    assert committed(admin, group) == {0: 10, 1: 10}
    assert seamark("groups", "undo", "on.json", "--clamp", "--apply")[0] == 0
    assert committed(admin, group) == {0: 5, 1: 6}


def test_the_dry_run_of_an_undo_names_only_options_that_it_has(seamark, group):
    assert seamark("groups", "reset", group, "--to", "latest", "--plan", "p.json", "--apply")[0] == 0
    code, _, err = seamark("groups", "undo", "p.json")
    assert (code, err) == (0, "dry run, nothing was changed: --apply makes the changes\n")


def test_the_dry_run_of_a_plan_that_was_applied_says_that_nothing_is_left(seamark, group):
    assert seamark("groups", "reset", group, "--to", "latest", "--plan", "p.json", "--apply")[0] == 0
    code, _, err = seamark("groups", "reset", "--plan", "p.json")
    assert (code, err) == (0, "nothing to change: the offsets have the planned values\n")


def test_a_dry_run_says_what_a_parallel_consumer_has_done_beyond_its_offset(seamark, admin, group, topic):
    ahead = Offset(4, done_ahead.encode(4, [6, 7]).text)
    admin.alter_group_offsets(group, {TopicPartition(topic, 0): ahead}).raise_if_failed()
    code, out, err = seamark("groups", "reset", group, "--topic", f"{topic}:0", "--to", "shift:-1", "--json")
    row = json.loads(out)[0]
    assert (code, row["repeated"], row["skipped"]) == (0, 3, 0)
    assert "2 records of those repeated had been done beyond the committed offset" in err
    code, out, err = seamark("groups", "reset", group, "--topic", f"{topic}:0", "--to", "shift:1", "--json")
    row = json.loads(out)[0]
    assert (code, row["after"], row["repeated"], row["skipped"]) == (0, 5, 0, 1)


def test_single_partitions_are_reset_and_the_others_left(seamark, admin, group, topic):
    assert seamark("groups", "reset", group, "--topic", f"{topic}:1", "--to", "offset:2", "--apply")[0] == 0
    assert committed(admin, group) == {0: 4, 1: 2}


@pytest.mark.parametrize("form", [[], ["--csv"]])
def test_what_is_exported_is_imported_into_another_group(seamark, admin, group, fresh_name, form):
    other = fresh_name("copy")
    assert seamark("groups", "export", group, "--out", "offsets", *form)[0] == 0
    assert seamark("groups", "import", "offsets", "--group", other, "--apply")[0] == 0
    assert committed(admin, other) == {0: 4, 1: 6}


def test_a_group_is_deleted_only_when_told_to(seamark, admin, group):
    assert "would be deleted, with 2 committed offsets" in seamark("groups", "delete", group)[1]
    assert committed(admin, group)
    assert seamark("groups", "delete", group, "--apply")[0] == 0
    assert committed(admin, group) == {}


def test_a_group_that_does_not_exist_is_not_said_to_go(seamark, admin, group):
    ghost = f"{group}x"
    for more in ((), ("--apply",)):
        code, out, err = seamark("groups", "delete", ghost, *more)
        assert (code, out) == (1, "")
        assert f"there is no group {ghost!r}; did you mean {group!r}?" in err
        assert "--apply makes" not in err
    code, out, err = seamark("groups", "delete", ghost, group)
    assert (code, out) == (1, f"group {group!r} would be deleted, with 2 committed offsets\n")
    assert f"there is no group {ghost!r}" in err
    assert committed(admin, group)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["groups", "export", "{ghost}"], 1),
        (["groups", "reset", "{group}", "--to", "group:{ghost}"], 1),
        (["groups", "reset", "{ghost}", "--to", "latest"], 2),
    ],
)
def test_a_group_that_does_not_exist_is_named_with_the_nearest(seamark, group, words, expected):
    ghost = f"{group}x"
    code, out, err = seamark(*(word.format(group=group, ghost=ghost) for word in words))
    assert (code, out) == (expected, "")
    assert f"there is no group {ghost!r}; did you mean {group!r}?" in err
    assert "?;" not in err


def test_a_directory_is_no_plan_to_undo(seamark):
    code, _, err = seamark("groups", "undo", ".")
    assert (code, err) == (1, "seamark: .: not a plan: a directory\n")


def test_a_group_in_use_is_not_said_to_go(seamark, kafka_like, topic, fresh_name):
    name = fresh_name("busy")
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=name, client_id="worker") as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        code, out, err = seamark("groups", "delete", name)
        assert (code, out) == (1, "")
        assert f"group {name!r} is Stable with 1 member" in err
        assert seamark("groups", "delete", name, "--apply")[0] == 1


@pytest.fixture
def harmed_group(kafka_like, admin, fresh_name):
    """20 of 100 committed to each partition: 40 deleted unread; 130 committed; 70 done ahead."""
    topic, name = fresh_name("topic"), fresh_name("group")
    admin.create_topics([NewTopic(topic, 3, 1)]).raise_if_failed()
    for index in range(3):
        produce(kafka_like.bootstrap, TopicPartition(topic, index), [b"x"] * 100)
    finished = done_ahead.encode(20, range(30, 100)).text
    offsets = {0: Offset(20), 1: Offset(130), 2: Offset(20, finished)}
    admin.alter_group_offsets(name, {TopicPartition(topic, at): each for at, each in offsets.items()}).raise_if_failed()
    admin.delete_records({TopicPartition(topic, 0): 60}).raise_if_failed()
    return name


PARTS = ("lag", "lost", "unfinished", "beyond_end")


# covers: M2
def test_what_the_lag_hides_has_columns_and_notes_in_each_command(seamark, harmed_group):
    parts = {0: (80, 40, 40, 0), 1: (-30, 0, 0, 30), 2: (80, 0, 10, 0)}
    described = json.loads(seamark("groups", "describe", harmed_group, "--json")[1])
    assert {row["partition"]: tuple(row[name] for name in PARTS) for row in described} == parts
    by_partition = json.loads(seamark("lag", harmed_group, "--partitions", "--json")[1])
    assert {row["partition"]: tuple(row[name] for name in PARTS) for row in by_partition} == parts
    assert [row["status"] for row in by_partition] == ["records lost", "beyond the end", "no members"]
    assert by_partition[1]["behind"] is None
    (row,) = json.loads(seamark("lag", harmed_group, "--json")[1])
    (listed,) = [each for each in json.loads(seamark("groups", "list", "--json")[1]) if each["group"] == harmed_group]
    for each in (row, listed):
        assert tuple(each[name] for name in PARTS) == (160, 40, 50, 30)
        assert "beyond the log's end" in each["remark"]
    for words in (["groups", "describe", harmed_group], ["lag", harmed_group], ["lag", harmed_group, "--partitions"]):
        code, out, err = seamark(*words)
        head = out.splitlines()[0]
        assert (code, [title in head for title in ("LOST", "UNFINISHED")]) == (0, [True, True])
        assert "beyond the log's end" in err


def test_the_lag_of_a_checkpoint_hides_no_loss_either(seamark, kafka_like, admin, harmed_group, tmp_path):
    (topic,) = {each.topic for each in admin.list_group_offsets([harmed_group])[harmed_group]}
    checkpoint(tmp_path, {0: [{topic: {"0": 20, "1": 130, "2": 70}}]}, done=[0])
    found = json.loads(seamark("spark-checkpoint", "show", "checkpoint", "--json")[1])
    assert [(row["lag"], row["lost"], row["beyond_end"]) for row in found["offsets"]] == [
        (80, 40, 0), (-30, 0, 30), (30, 0, 0),
    ]  # fmt: skip
    _, out, err = seamark("spark-checkpoint", "show", "checkpoint")
    assert "LOST" in out
    assert "30 beyond the log's end" in err


def test_a_group_that_is_well_has_no_columns_for_what_it_has_not(seamark, group):
    for words in (["groups", "describe", group], ["lag", group]):
        code, out, err = seamark(*words)
        assert (code, err) == (0, "")
        assert not {"LOST", "UNFINISHED"} & set(out.splitlines()[0].split())


def test_a_check_fails_for_loss_whatever_the_limit(seamark, harmed_group):
    code, _, err = seamark("lag", harmed_group, "--fail-over", "1000000")
    assert (code, "has committed 30 beyond the end" in err, "has lost 40 records" in err) == (3, True, True)
    assert seamark("lag", harmed_group)[0] == 0


def test_a_partition_without_a_commit_is_unknown_but_a_check_counts_all_of_it(seamark, kafka_like, topic, fresh_name):
    name = fresh_name("group")
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=name, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        (row,) = json.loads(seamark("lag", name, "--json")[1])
        assert (row["lag"], row["behind"]) == (None, None)
        assert "no committed offset" in row["remark"]
        (row,) = json.loads(seamark("lag", name, "--json", "--reset", "earliest")[1])
        assert row["lag"] == 20
        assert seamark("lag", name, "--fail-over", "19")[0] == 3
        assert seamark("lag", name, "--fail-over", "20")[0] == 0
        assert seamark("lag", name, "--fail-over", "19", "--reset", "latest")[0] == 0


def test_the_time_behind_is_that_of_the_first_unread_record_itself(seamark, kafka_like, admin, fresh_name):
    topic, name = fresh_name("topic"), fresh_name("group")
    admin.create_topics([NewTopic(topic, 1, 1)]).raise_if_failed()
    partition = TopicPartition(topic, 0)
    now_ms = int(time.time() * 1000)
    times = [now_ms - 61_000 + index for index in range(20)]
    times[7] = now_ms - 3_600_000
    produce(kafka_like.bootstrap, partition, [b"x"] * 20, times)
    admin.alter_group_offsets(name, {partition: 7}).raise_if_failed()
    (row,) = json.loads(seamark("lag", name, "--json")[1])
    passed = int(time.time() * 1000) - now_ms
    assert row["behind_method"] == "read"
    assert 3600 <= row["behind"] <= 3600 + passed / 1000


def test_lag_is_shown_in_records_and_time_and_fails_over_a_limit(seamark, group, topic):
    code, out, _ = seamark("lag", group, "--json")
    (row,) = json.loads(out)
    assert (code, row["lag"], row["topic"]) == (0, 10, topic)
    assert row["behind"] > 86_400
    assert seamark("lag", group, "--fail-over", "10")[0] == 0
    code, _, err = seamark("lag", group, "--fail-over", "9")
    assert (code, group in err) == (3, True)
    assert seamark("lag", group, "--fail-over", "10m")[0] == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["groups", "describe"], "name the groups"),
        (["groups", "reset", "g", "--to", "nowhere"], "is not one of"),
        (["groups", "reset", "g"], "--to"),
        (["lag", "--fail-over", "soon"], "or a duration, such as 10m"),
        (["lag", "--reset", "middle"], "neither earliest nor latest"),
        (["groups", "list", "--sort", "colour"], "is not one of"),
        (
            ["groups", "export", "{group}", "--out", "no/such/directory"],
            "--out no/such/directory: cannot be written",
        ),
        (["audit", "--out", "{file}"], "not a directory"),
        (["dashboard", "--listen", "nonsense"], "listen='nonsense': must be HOST:PORT"),
    ],
)
def test_wrong_words_are_answered_with_a_sentence_and_code_2(seamark, group, tmp_path, words, sentence):
    (tmp_path / "a-file").touch()
    code, _, err = seamark(*(word.format(group=group, file=tmp_path / "a-file") for word in words))
    assert (code, sentence in err) == (2, True)


def test_a_cluster_that_is_not_there_is_named_in_one_sentence(seamark):
    code, _, err = seamark("groups", "list", "-o", "default.api.timeout.ms=500", bootstrap="127.0.0.1:1")
    assert code == 1
    assert err.count("\n") == 1
    assert "127.0.0.1:1" in err

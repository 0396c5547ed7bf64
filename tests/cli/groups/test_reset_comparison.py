"""``seamark groups reset`` beside ``kafka-consumer-groups --reset-offsets``: the same offsets for every way both have.

Two groups begin alike. Kafka's tool resets one and ours the other, first as a dry run and then in earnest; what is
announced and what is committed afterwards must be the same. Kafka's tool runs in one JVM for all of it. An offset
outside the log is where the two part: Kafka's tool takes the nearest end with a warning, ours is refused unless told to
(``--clamp``), which then means the same.

What a log holds decides what a mode means, so there are four kinds: a whole log, one whose beginning was deleted, one
without records, and one that the groups have not committed to.
"""

import json
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from seamark.client import Consumer, TopicPartition
from seamark.client.admin.types import NewTopic
from tests.support.java import JavaOracle
from tests.support.kafka_like import KafkaLike
from tests.support.produced import produce

pytestmark = pytest.mark.java

TOOL = Path(__file__).parents[2] / "conformance" / "java" / "GroupTool.java"
HOUR_MS = 3_600_000


class Logs(NamedTuple):
    """``first`` has four partitions, ``second`` two; records are 6 h, 4 h and 2 h old, ten of each age."""

    first: str
    second: str
    now_ms: int

    @property
    def committed(self):
        """What both groups have committed before a reset; nothing for the last partition of ``first``."""
        offsets = (
            (self.first, 0, 12),
            (self.first, 1, 25),
            (self.first, 2, 0),
            (self.second, 0, 30),
            (self.second, 1, 5),
        )
        return {TopicPartition(topic, index): offset for topic, index, offset in offsets}


@pytest.fixture(scope="module")
def kafka_like(apache_kafka):
    """Only Apache Kafka: this is about the two tools. Resets on the embedded broker are in test_groups_commands.py."""
    return KafkaLike("apache-4.3", apache_kafka.bootstrap, apache_kafka)


@pytest.fixture(scope="module")
def tool():
    """Call Kafka's tool with words; gives its exit code and what it printed."""
    with JavaOracle(TOOL) as oracle:

        def call(*words):
            code, _, text = oracle.ask("\t".join(words), timeout=120).partition("\t")
            return int(code), text.replace("\f", "\n")

        yield call


@pytest.fixture(scope="module")
def logs(kafka_like):
    from seamark.client import Admin

    now_ms = int(time.time() * 1000)
    found = Logs(f"first-{now_ms}", f"second-{now_ms}", now_ms)
    with Admin(bootstrap_servers=kafka_like.bootstrap) as admin:
        admin.create_topics([NewTopic(found.first, 4, 1), NewTopic(found.second, 2, 1)]).raise_if_failed()
        for partition in (*((found.first, index) for index in (0, 1, 3)), *((found.second, index) for index in (0, 1))):
            for hours in (6, 4, 2):
                produce(kafka_like.bootstrap, TopicPartition(*partition), [b"x"] * 10, now_ms - hours * HOUR_MS)
        admin.delete_records({TopicPartition(found.first, 1): 15}).raise_if_failed()
    return found


@pytest.fixture
def pair(admin, logs, fresh_name):
    """Two groups with the same commits: Kafka's and ours."""
    names = (fresh_name("theirs"), fresh_name("ours"))
    for name in names:
        admin.alter_group_offsets(name, logs.committed).raise_if_failed()
    return names


def committed(admin, group):
    return {partition: offset.offset for partition, offset in admin.list_group_offsets([group])[group].items()}


def rows_of_csv(text):
    """Rows of ``topic,partition,offset``, without what else the tool says."""
    cells = [line.strip().strip('"').split(",") for line in text.splitlines()]
    return {TopicPartition(row[0], int(row[1])): int(row[2]) for row in cells if len(row) == 3 and row[1].isdigit()}


def iso(at_ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03}"


# A mode of Kafka's tool with its argument, and ours; {…} are times that are known when the logs are.
MODES = {
    "the beginning": (["--to-earliest"], "earliest"),
    "the end": (["--to-latest"], "latest"),
    "an offset": (["--to-offset", "20"], "offset:20"),
    "an offset before the log": (["--to-offset", "3"], "offset:3"),
    "an offset behind the log": (["--to-offset", "1000"], "offset:1000"),
    "further back": (["--shift-by", "-7"], "shift:-7"),
    "further on": (["--shift-by", "9"], "shift:9"),
    "three hours ago": (["--by-duration", "PT3H"], "ago:3h"),
    "five hours and a half ago": (["--by-duration", "PT5H30M"], "ago:5h30m"),
    "later than all records": (["--by-duration", "PT1H"], "ago:1h"),
    "a time in UTC": (["--to-datetime", "{at_5h}"], "time:{at_5h}Z"),
    "a time without a zone": (["--to-datetime", "{at_5h}"], "time:{at_5h}"),
    "a time with another zone": (["--to-datetime", "{at_3h}+02:00"], "time:{at_3h}+02:00"),
    "where it is": (["--to-current"], "shift:0"),
}
SCOPES = {
    "all topics": (["--all-topics"], []),
    "a topic": (["--topic", "{second}"], ["--topic", "{second}"]),
    "some partitions": (["--topic", "{first}:0,1"], ["--topic", "{first}:0,1"]),
    "partitions of two topics": (
        ["--topic", "{first}:2", "--topic", "{second}:1"],
        ["--topic", "{first}:2", "--topic", "{second}:1"],
    ),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("mode", MODES)
def test_both_tools_announce_and_commit_the_same(seamark, tool, admin, kafka_like, logs, pair, mode, scope):
    theirs, ours = pair
    words = {
        "first": logs.first, "second": logs.second,
        "at_5h": iso(logs.now_ms - 5 * HOUR_MS), "at_3h": iso(logs.now_ms - 3 * HOUR_MS),
    }  # fmt: skip
    kafka_words, our_words = (
        [word.format(**words) for word in (*MODES[mode][0], *SCOPES[scope][0])],
        [word.format(**words) for word in ("--to", MODES[mode][1], "--clamp", *SCOPES[scope][1])],
    )
    reset = ["--bootstrap-server", kafka_like.bootstrap, "--reset-offsets", "--group", theirs, *kafka_words]

    code, text = tool(*reset, "--dry-run", "--export")
    announced = rows_of_csv(text)
    assert (code, bool(announced)) == (0, True), text
    assert committed(admin, theirs) == logs.committed
    code, out, err = seamark("groups", "reset", ours, *our_words, "--json")
    changes = {TopicPartition(row["topic"], row["partition"]): row["after"] for row in json.loads(out)}
    assert code == 0, err
    assert committed(admin, ours) == logs.committed
    # Ours leaves out what would not change.
    assert {**{each: logs.committed[each] for each in announced}, **changes} == announced

    code, text = tool(*reset, "--execute")
    assert code == 0, text
    code, _, err = seamark("groups", "reset", ours, *our_words, "--apply")
    assert code == 0, err
    assert committed(admin, ours) == committed(admin, theirs)


@pytest.mark.parametrize("to", ["offset:3", "offset:1000", "shift:-7", "shift:9"])
def test_where_kafkas_tool_takes_the_nearest_end_ours_is_refused_and_names_the_word_for_it(
    seamark, admin, logs, pair, to
):
    _, ours = pair
    for more in ([], ["--apply"]):
        code, _, err = seamark("groups", "reset", ours, "--to", to, *more)
        assert (code, "--clamp" in err) == (1, True), err
        assert committed(admin, ours) == logs.committed


def test_a_whole_topic_with_a_partition_that_nothing_was_committed_to(seamark, tool, admin, kafka_like, logs, pair):
    theirs, ours = pair
    fresh = TopicPartition(logs.first, 3)
    reset = ["--bootstrap-server", kafka_like.bootstrap, "--reset-offsets", "--group", theirs, "--topic", logs.first]
    for kafka_mode, to, expected in ((["--to-latest"], "latest", 30), (["--by-duration", "PT3H"], "ago:3h", 20)):
        assert tool(*reset, *kafka_mode, "--execute")[0] == 0
        assert seamark("groups", "reset", ours, "--topic", logs.first, "--to", to, "--apply")[0] == 0
        assert committed(admin, ours) == committed(admin, theirs)
        assert committed(admin, ours)[fresh] == expected


@pytest.mark.parametrize("command", ["reset", "import"])
def test_a_file_of_offsets_sets_the_same(seamark, tool, admin, kafka_like, logs, pair, tmp_path, command):
    theirs, ours = pair
    rows = [(logs.first, 0, 17), (logs.first, 1, 20), (logs.second, 1, 30)]
    file = tmp_path / "offsets.csv"
    file.write_text("".join(f"{topic},{index},{offset}\n" for topic, index, offset in rows))
    reset = ["--bootstrap-server", kafka_like.bootstrap, "--reset-offsets", "--group", theirs]

    code, text = tool(*reset, "--from-file", str(file), "--dry-run", "--export")
    assert (code, rows_of_csv(text)) == (0, {TopicPartition(*row[:2]): row[2] for row in rows}), text
    assert tool(*reset, "--from-file", str(file), "--execute")[0] == 0
    if command == "import":
        code, _, err = seamark("groups", "import", str(file), "--group", ours, "--apply")
    else:
        code, _, err = seamark("groups", "reset", ours, "--to", f"file:{file}", "--apply")
    assert code == 0, err
    assert committed(admin, ours) == committed(admin, theirs)
    assert committed(admin, ours)[TopicPartition(logs.first, 0)] == 17


def test_what_kafkas_tool_exports_ours_imports_and_the_other_way(
    seamark, tool, admin, kafka_like, logs, pair, tmp_path, fresh_name
):
    theirs, ours = pair
    admin.alter_group_offsets(ours, {TopicPartition(logs.second, 0): 7}).raise_if_failed()
    reset = ["--bootstrap-server", kafka_like.bootstrap, "--reset-offsets"]
    file = tmp_path / "theirs.csv"
    code, text = tool(
        *reset, "--group", theirs, "--group", ours, "--all-topics", "--to-current", "--dry-run", "--export"
    )
    assert code == 0
    file.write_text("".join(f"{line.strip()}\n" for line in text.splitlines() if line.count(",") == 3))
    before = {name: committed(admin, name) for name in pair}
    for name in pair:
        admin.alter_group_offsets(name, dict.fromkeys(logs.committed, 0)).raise_if_failed()
    code, _, err = seamark("groups", "import", str(file), "--apply")
    assert (code, {name: committed(admin, name) for name in pair}) == (0, before), err

    assert seamark("groups", "export", ours, "--csv", "--out", "ours.csv")[0] == 0
    copy = fresh_name("copy")
    lines = Path("ours.csv").read_text().splitlines()
    three = tmp_path / "three.csv"
    three.write_text("".join(f"{line.partition(',')[2]}\n" for line in lines))
    code, text = tool(*reset, "--group", copy, "--from-file", str(three), "--execute")
    assert (code, committed(admin, copy)) == (0, before[ours]), text


def test_neither_tool_moves_a_group_that_is_being_read(seamark, tool, admin, kafka_like, logs, fresh_name):
    name = fresh_name("busy")
    admin.alter_group_offsets(name, {TopicPartition(logs.second, 0): 9}).raise_if_failed()
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=name, enable_auto_commit=False) as consumer:
        consumer.subscribe([logs.second])
        while not consumer.assignment():
            consumer.poll(0.1)
        arguments = ["--reset-offsets", "--group", name, "--all-topics", "--to-earliest", "--execute"]
        _, text = tool("--bootstrap-server", kafka_like.bootstrap, *arguments)
        assert "inactive" in text
        code, _, err = seamark("groups", "reset", name, "--to", "earliest", "--apply")
        assert (code, "1 member" in err) == (1, True)
        assert committed(admin, name) == {TopicPartition(logs.second, 0): 9}

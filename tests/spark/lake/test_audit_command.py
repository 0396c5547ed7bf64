"""``seamark audit`` over a broker: the lake filled, findings told, the report written, the past restored."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from datetime import UTC, datetime
from pathlib import Path

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, Offset, Producer, TopicPartition
from seamark.errors import SeamarkError
from seamark.spark.lake.tables.lake import Lake
from tests.support.external_tools import java


class World:
    """A broker with a topic of two partitions that a group has moved along; ``times`` are between its moves."""

    def __init__(self, broker, admin):
        self.bootstrap = broker.bootstrap
        self.admin = admin
        broker.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for index in range(2):
                producer.send_many("orders", [b"x"] * 100, partition=index)
        # Somebody has been a member and has gone, so that whoever commits now is none.
        with Consumer(bootstrap_servers=broker.bootstrap, group_id="billing", enable_auto_commit=False) as consumer:
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.2)
        self.times = []
        for moves in ({0: Offset(10, "first"), 1: 20}, {0: 90}, {0: 30, 1: 25}):
            self.set(moves)
            time.sleep(0.02)
            self.times.append(datetime.now(UTC).isoformat())
            time.sleep(0.02)

    def set(self, moves, group="billing"):
        wanted = {TopicPartition("orders", index): offset for index, offset in moves.items()}
        self.admin.alter_group_offsets(group, wanted).raise_if_failed()

    def committed(self, group="billing"):
        found = self.admin.list_group_offsets([group])[group]
        return {partition.partition: offset for partition, offset in found.items()}


@pytest.fixture(scope="module")
def world():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        yield World(broker, admin)


@pytest.fixture
def lake(seamark, world, tmp_path):
    ran = seamark("audit", "--bootstrap", world.bootstrap, "--out", "lake")
    assert ran.code == 0, ran.err
    return tmp_path / "lake"


def test_an_audit_fills_the_lake_tells_what_it_found_and_writes_the_report(seamark, world, tmp_path, spark):
    ran = seamark("audit", "--bootstrap", world.bootstrap, "--out", "lake", "--report", "report.html", "--json")
    assert ran.code == 0, ran.err
    assert all(line.startswith("audit: ") for line in ran.err.splitlines())
    assert "reading __consumer_offsets into lake" in ran.err
    assert re.search(r"\d+ new records in \w[\w.]*, rows: commits 5, generations \d", ran.err)
    told = json.loads(ran.out)
    # The resets were made by an admin: nobody who is a member.
    assert told["totals"]["findings"] == {"forward jump": 2, "moved from outside": 3, "rewind": 1}
    assert told["groups"][0]["name"] == "billing"
    assert "Offsets report" in (tmp_path / "report.html").read_text()
    assert Lake.open(tmp_path / "lake").read(spark, "lag").count() == 2
    again = seamark("audit", "--bootstrap", world.bootstrap, "--out", "lake")
    assert "0 new records" in again.err
    head, *found = again.out.splitlines()
    assert head.split() == ["SEVERITY", "KIND", "GROUP", "WHAT"]
    kinds = sorted(line.partition("billing")[0].split(maxsplit=1)[1].strip() for line in found)
    assert kinds == ["forward jump"] * 2 + ["moved from outside"] * 3 + ["rewind"]
    assert [line.split()[0] for line in found] == ["critical"] * 2 + ["warning"] * 4


def test_as_of_shows_what_held_and_diff_what_changed(seamark, world, lake):
    first, second, third = world.times
    shown = seamark("audit", "as-of", first, "--lake", lake, "--json")
    rows = json.loads(shown.out)
    assert [(row["group"], row["partition"], row["offset"], row["metadata"] or "") for row in rows] == [
        ("billing", 0, 10, "first"),
        ("billing", 1, 20, ""),
    ]
    table = seamark("audit", "--out", lake, "as-of", second)
    assert table.out.splitlines()[1].split()[:4] == ["billing", "orders", "0", "90"]
    changed = seamark("audit", "diff", first, third, "--lake", lake, "--json")
    assert [(row["partition"], row["before"], row["after"], row["change"], row["what"]) for row in
            json.loads(changed.out)] == [(0, 10, 30, 20, "moved"), (1, 20, 25, 5, "moved")]  # fmt: skip
    assert json.loads(seamark("audit", "as-of", "2001-01-01", "--lake", lake, "--json").out) == []


def test_going_back_is_a_plan_that_is_shown_applied_and_taken_back(seamark, world, lake):
    where = ("--lake", lake, "--group", "billing", "--bootstrap", world.bootstrap)
    shown = seamark("audit", "as-of", world.times[0], *where, "--plan", "plan.json", "--json")
    assert shown.code == 0, shown.err
    assert [(row["partition"], row["before"], row["after"]) for row in json.loads(shown.out)] == [
        (0, 30, 10),
        (1, 25, 20),
    ]
    assert "dry run, nothing was changed" in shown.err
    assert world.committed()[0].offset == 30
    applied = seamark("audit", "as-of", world.times[0], *where, "--plan", "plan.json", "--apply")
    assert applied.code == 0, applied.err
    assert world.committed() == {0: Offset(10, "first"), 1: Offset(20)}
    undone = seamark("groups", "undo", "plan.json", "--apply", "--bootstrap", world.bootstrap)
    assert undone.code == 0, undone.err
    assert {index: offset.offset for index, offset in world.committed().items()} == {0: 30, 1: 25}


def test_a_group_is_reset_to_where_the_lake_remembers_it_even_after_its_offsets_are_gone(seamark, world, lake):
    world.admin.delete_group_offsets("billing", [TopicPartition("orders", 0)]).raise_if_failed()
    where = ("--bootstrap", world.bootstrap, "--lake", lake)
    shown = seamark("groups", "reset", "billing", "--to", f"lake:{world.times[1]}", *where, "--json")
    assert [(row["partition"], row["before"], row["after"]) for row in json.loads(shown.out)] == [
        (0, None, 90),
        (1, 25, 20),
    ]
    done = seamark("groups", "reset", "billing", "--to", f"lake:{world.times[2]}", *where, "--apply")
    assert done.code == 0, done.err
    assert world.committed()[0].offset == 30


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("audit", "--bootstrap", "127.0.0.1:1"), "--out DIR is required"),
        (("audit", "--out", "lake"), "no cluster given"),
        (("audit", "as-of", "2026-01-01"), "--lake DIR is required"),
        (("audit", "as-of", "yesterday", "--lake", "."), "'yesterday' is not a time"),
        (("audit", "diff", "2026-01-01", "2026-01-02", "--lake", "nowhere"), "nowhere is not a lake"),
        (("audit", "--out", "lake", "--source", "logs", "--follow"), "do not change"),
        (("audit", "--out", "lake", "--source", "logs", "--rule", "patience=3"), "unknown rule parameter 'patience'"),
        (("audit", "--out", "lake", "--source", "logs", "--every", "soon"), "not a duration"),
        (("groups", "reset", "g", "--to", "lake:2026-01-01", "--bootstrap", "x:1"), "needs --lake DIR"),
    ],
    ids=lambda each: " ".join(each)[:50] if isinstance(each, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_sentence(seamark, arguments, sentence):
    ran = seamark(*arguments)
    assert ran.code in (1, 2)
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1
    assert sentence in ran.err


def test_a_group_that_the_lake_does_not_know_is_no_plan_without_changes(seamark, world, lake):
    ran = seamark(
        "audit", "as-of", world.times[0], "--lake", lake, "--group", "biling", "--plan", "p.json",
        "--bootstrap", world.bootstrap,
    )  # fmt: skip
    assert ran.code == 1
    assert "the lake has no offset of group 'biling' at" in ran.err


def test_without_java_or_without_spark_one_sentence_says_what_to_install(seamark, monkeypatch, world):
    from seamark.cli.audit import spark as audit_spark

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ran = seamark("audit", "--bootstrap", world.bootstrap, "--out", "lake")
    assert ran.code == 1
    assert "Spark needs Java 17 or newer" in ran.err
    monkeypatch.setattr(audit_spark, "find_spec", lambda _: None)
    ran = seamark("audit", "as-of", "2026-01-01", "--lake", "lake")
    assert ran.err == "seamark: seamark audit needs optional packages: pip install 'seamark[spark]'\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Job aborted.\n seamark.spark.lake.tables.lake.LakeError: it is damaged SQLSTATE: 1", "^it is damaged$"),
        ("\nJava heap space\n at java.lang", r"the Spark job failed: Java heap space; \S*spark.log has details"),
    ],
)  # fmt: skip
def test_an_error_of_spark_is_one_sentence_and_its_log_is_kept(monkeypatch, text, sentence):
    from seamark.cli.audit import spark as audit_spark
    from seamark.spark import session as local_session

    class Session(contextlib.AbstractContextManager):
        def __init__(self, directory, **_):
            (directory / "spark.log").write_text("what the JVM said")
            self.spark, self.is_open = None, True

        def __exit__(self, *_):
            self.is_open = False

    class Failed(Exception):
        def __str__(self):
            # As Spark's own: the text is in the JVM.
            return text if session.is_open else "<exception str() failed>"

    monkeypatch.setattr(local_session, "LocalSession", lambda *args, **more: session.__init__(*args, **more) or session)
    monkeypatch.setattr("seamark.spark.register", lambda _: None)
    session = Session.__new__(Session)
    with pytest.raises(SeamarkError, match=sentence) as told, audit_spark.spark_session("a test"):
        raise Failed
    assert "\n" not in str(told.value)
    if "has details" in str(told.value):
        kept = Path(re.search(r"; (\S+) has details", str(told.value))[1])
        assert kept.read_text() == "what the JVM said"
        shutil.rmtree(kept.parent)


def test_following_goes_on_until_it_is_interrupted(seamark, world, monkeypatch):
    from seamark.cli.audit import run as audit_run

    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(audit_run, "time", types.SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    ran = seamark("audit", "--bootstrap", world.bootstrap, "--out", "lake", "--follow", "--every", "1h")
    assert ran.code == 130
    assert all(3000 < each < 3600 for each in pauses)
    assert ran.err.count("audit: sampling groups") == 2
    assert "; Ctrl-C stops" in ran.err
    assert ran.out.count("SEVERITY") == 2


@pytest.mark.slow
def test_an_interruption_leaves_a_clean_screen_and_what_was_finished(world, tmp_path):
    java()
    program = [sys.executable, "-c", "from seamark.cli.main import main; main()"]
    with subprocess.Popen(
        [*program, "audit", "--bootstrap", world.bootstrap, "--out", "lake", "--report", "report.html"], cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            # Spark is at work on the findings.
            if "new records in" in line:
                time.sleep(0.5)
                os.killpg(process.pid, signal.SIGINT)
                break
        out, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert out == ""
    assert all(line.startswith("audit: ") for line in [*lines, *err.splitlines()]), (lines, err)
    lake = Lake.open(tmp_path / "lake")
    assert (lake.version, lake.published.rows("findings")) == (2, 0)
    assert lake.published.rows("commits") >= 5
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lake"]

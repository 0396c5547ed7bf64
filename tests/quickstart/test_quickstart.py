"""``seamark quickstart`` as a person runs it: embedded, on Apache Kafka, without Java, and broken off."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from seamark import Broker
from seamark.client import Admin
from tests.quickstart.show import DOCUMENTS
from tests.support.external_tools import java
from tests.support.terminal import PseudoTerminal

SEAMARK = Path(sys.executable).with_name("seamark")
ROWS = 1_000
# What Spark, the JVM and Python say when nobody keeps them from it.
NOISE = re.compile(r"WARN|Warning|Exception|Traceback|incubator|log4j|Py4J|NativeCodeLoader", re.IGNORECASE)


def run(*words, cwd, env=None, timeout=280):
    return subprocess.run(
        [SEAMARK, "quickstart", "--rows", str(ROWS), *map(str, words)],
        cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def without_java(tmp_path):
    """An environment where no java is found, with the commands that programs need."""
    return {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}


def shown_in_documents():
    """Group and findings in the screens that the documents show; tests/quickstart/show.py writes them."""
    [shown] = {
        tuple(re.findall(r"^(\w+) +\d+ +\d+ +\d+ +\d+ +\d+ +(\S.*)$", document.read_text(), re.MULTILINE))
        for document in DOCUMENTS
    }
    return dict(shown)


@pytest.mark.slow
def test_the_whole_story_is_measured_and_its_poison_and_rewind_are_found(tmp_path):
    java()
    ran = run("--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    groups = {each["group"]: each for each in told["groups"]}
    assert list(groups) == ["billing", "shipping", "reports", "spark"]
    for name in ("billing", "reports", "spark"):
        assert groups[name]["processed"] == groups[name]["committed"] == ROWS, name
        assert groups[name]["lag"] == 0, name
    assert groups["billing"]["repeated"] == groups["shipping"]["repeated"] == groups["spark"]["repeated"] == 0
    assert groups["reports"]["repeated"] > 0
    shipping = groups["shipping"]
    assert shipping["processed"] < ROWS
    assert shipping["committed"] + shipping["lag"] == ROWS
    assert 0 < shipping["done_ahead"] < shipping["lag"]
    assert shipping["unfinished"] == shipping["lag"] - shipping["done_ahead"] == ROWS - shipping["processed"]
    assert groups["billing"]["findings"] == groups["spark"]["findings"] == []
    assert "blocked" in shipping["findings"]
    assert {"rewind", "moved from outside"} <= set(groups["reports"]["findings"])
    rewinds = [each for each in told["found"] if (each["group"], each["kind"]) == ("reports", "rewind")]
    assert sum(int(re.search(r"(\d+) records", each["text"])[1]) for each in rewinds) == groups["reports"]["repeated"]
    report = Path(told["report"])
    assert report == tmp_path / "seamark-quickstart" / "report.html"
    assert "reports" in report.read_text()
    assert not NOISE.search(ran.stderr), ran.stderr
    assert json.loads((report.parent / "quickstart.json").read_text()) == told
    assert (report.parent / "rewind.undo.json").is_file()
    assert shown_in_documents() == {name: ", ".join(each["findings"]) or "none" for name, each in groups.items()}


def test_without_java_the_rest_runs_and_what_is_left_out_is_said(tmp_path):
    ran = run("--keep", cwd=tmp_path, env=without_java(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert not NOISE.search(ran.stderr), "the record that fails is told on the screen alone"
    left_out = [line for line in ran.stderr.splitlines() if "skipped: " in line]
    assert len(left_out) == 2
    assert "Spark needs Java 17" in left_out[0]
    [row] = [line.split() for line in ran.stdout.splitlines() if line.startswith("billing")]
    assert row[:6] == ["billing", str(ROWS), "0", str(ROWS), "0", "0"]
    assert row[6:] == ["not", "audited"]
    assert "Report:" not in ran.stdout
    kept = tmp_path / "seamark-quickstart" / "broker"
    assert f"seamark broker --data {kept}" in ran.stdout
    with Broker(data=kept) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        committed = admin.list_group_offsets(["billing"])["billing"]
        assert sum(offset.offset for offset in committed.values()) == ROWS


@pytest.mark.kafka
def test_on_a_given_cluster_it_removes_what_it_made(tmp_path, apache_kafka):
    with Admin(bootstrap_servers=apache_kafka.bootstrap) as admin:
        before = set(admin.list_topics())
        ran = run("--bootstrap", apache_kafka.bootstrap, "--json", cwd=tmp_path, env=without_java(tmp_path))
        assert ran.returncode == 0, ran.stderr
        told = json.loads(ran.stdout)
        assert told["topic"].startswith("quickstart-")
        assert [each["processed"] for each in told["groups"]][::2] == [ROWS, ROWS]
        assert set(admin.list_topics()) == before
        assert not [each for each in admin.list_groups() if each.group_id.startswith("quickstart-")]


def test_ctrl_c_cleans_up_and_exits_with_130(tmp_path):
    """While consumers work and Spark is starting; tests/soak/quickstart.py does it at other moments."""
    words = [SEAMARK, "quickstart", "--rows", "2000", "--out", tmp_path / "out"]
    with PseudoTerminal(words, 80, cwd=tmp_path) as terminal:
        for _ in terminal.pieces():
            if "processing" in terminal.text:
                break
        family = psutil.Process(terminal.process.pid).children(recursive=True)
        os.kill(terminal.process.pid, signal.SIGINT)
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.wait() == 130, terminal.text
        assert "Interrupted: cleaning up." in terminal.text
        assert "Traceback" not in terminal.text
    deadline = time.monotonic() + 10
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family):
        assert time.monotonic() < deadline, family
        time.sleep(0.1)


def test_an_unreachable_cluster_is_one_sentence(tmp_path):
    ran = run("--bootstrap", "127.0.0.1:1", "-o", "default.api.timeout.ms=1000", cwd=tmp_path)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.splitlines()[-1].startswith("seamark: ")
    assert "Traceback" not in ran.stderr

"""The real thing is there: both Kafka releases start, answer, keep their data, are stopped, and nothing is left behind.

Also what is said where Java or Maven is missing, because that sentence is all a contributor sees.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support import external_tools
from tests.support.apache_kafka import VERSIONS, ApacheKafka, KafkaFailed
from tests.support.capture import CaptureError, Wire, exchange, framed
from tests.support.external_tools import Unavailable, cached_directory
from tests.support.java import JavaFailed, JavaOracle, java_program, run_java
from tests.support.maven import NEWEST_KAFKA, OLDER_KAFKA, kafka_jars, maven_jars

ROOT = Path(__file__).parents[2]

MURMUR2 = """
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Utils;

public class Murmur2Oracle {
    public static void main(String[] args) throws Exception {
        for (String word : args) System.out.println(Utils.murmur2(word.getBytes(StandardCharsets.UTF_8)));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            if (line.equals("end")) throw new IllegalStateException("asked to end");
            if (line.equals("hang")) Thread.sleep(60_000);
            System.out.println(Utils.murmur2(line.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
"""


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", api_key, version, correlation_id, 5) + b"tests" + body)


def api_versions(kafka: ApacheKafka) -> dict[int, tuple[int, int]]:
    answer = exchange(kafka.bootstrap, request(18, 0, 7))
    correlation_id, error_code, count = struct.unpack_from(">ihi", answer, 4)
    assert (correlation_id, error_code) == (7, 0)
    assert len(answer) == 14 + 6 * count
    ranges = [struct.unpack_from(">hhh", answer, 14 + 6 * index) for index in range(count)]
    return {key: (lowest, highest) for key, lowest, highest in ranges}


def create_topic(kafka: ApacheKafka, topic: str) -> None:
    args = ("--bootstrap-server", kafka.bootstrap, "--create", "--topic", topic, "--partitions", "2")
    run = kafka.tool("org.apache.kafka.tools.TopicCommand", *args)
    assert (run.returncode, run.stderr) == (0, "")


def test_both_releases_answer_api_versions(apache_kafka_any):
    answered = api_versions(apache_kafka_any)
    # OffsetCommit v0 and v1 went away with 4.0: proof that it is the release it says it is.
    assert answered[8] == {NEWEST_KAFKA: (2, 10), OLDER_KAFKA: (0, 9)}[apache_kafka_any.version]


def test_a_started_broker_lists_itself_in_metadata_at_once(apache_kafka_any):
    answer = exchange(apache_kafka_any.bootstrap, request(3, 1, 8, struct.pack(">i", 0)))
    brokers, node_id = struct.unpack_from(">ii", answer, 8)
    assert (brokers, node_id) == (1, 1)


def test_tools_and_segment_files_show_a_topic(apache_kafka_any):
    topic = f"made-by-tool-{time.monotonic_ns()}"
    create_topic(apache_kafka_any, topic)
    deadline = time.monotonic() + 10
    while not apache_kafka_any.segment_files(topic, 1) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [file.name for file in apache_kafka_any.segment_files(topic, 1)] == ["00000000000000000000.log"]
    assert apache_kafka_any.segment_files(topic, 2) == []
    groups = apache_kafka_any.tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", apache_kafka_any.bootstrap, "--list",
    )  # fmt: skip
    assert groups.returncode == 0, groups.stderr


def test_the_run_shares_one_broker_per_version_and_settings(apache_kafka_with, apache_kafka, apache_kafka_39):
    assert apache_kafka_with() is apache_kafka
    assert apache_kafka_with(version=OLDER_KAFKA) is apache_kafka_39
    assert apache_kafka.pid != apache_kafka_39.pid
    assert 50 < apache_kafka.resident_mb() < 2000


# One release: ending and starting again are our own, and alike for both.
@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_keeps_port_topics_and_settings_over_stop_and_kill_and_leaves_nothing_behind():
    settings = {
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "message.max.bytes": 4321,
        "auto.create.topics.enable": False,
    }
    with ApacheKafka(settings=settings) as kafka:
        first, bootstrap = kafka.pid, kafka.bootstrap
        create_topic(kafka, "kept")
        kafka.restart()
        assert not psutil.pid_exists(first)
        assert kafka.bootstrap == bootstrap
        described = kafka.tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap,
            "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1",
        )  # fmt: skip
        assert "message.max.bytes=4321" in described.stdout
        assert "auto.create.topics.enable=false" in described.stdout
        kafka.kill()
        assert not kafka.is_running
        with pytest.raises(CaptureError, match="no connection"):
            exchange(bootstrap, request(18, 0, 1))
        with pytest.raises(KafkaFailed, match="not running"):
            _ = kafka.pid
        kafka.start()
        with pytest.raises(KafkaFailed, match="already running"):
            kafka.start()
        assert kafka.segment_files("kept", 0)
        assert 18 in api_versions(kafka)
        last, directory = kafka.pid, kafka.log_dir.parent
    assert not psutil.pid_exists(last)
    assert not directory.exists()
    kafka.close()
    with pytest.raises(KafkaFailed, match="closed"):
        kafka.start()


@pytest.mark.kafka
def test_a_wrong_setting_is_told_from_the_brokers_log():
    broker = ApacheKafka(settings={"num.io.threads": 0})
    with pytest.raises(KafkaFailed, match=r"(?s)num\.io\.threads"):
        broker.__enter__()
    assert not broker.log_dir.parent.exists()


@pytest.mark.kafka
def test_a_killed_test_run_leaves_no_broker_and_no_directory():
    script = (
        "import sys, time\n"
        "from tests.support.apache_kafka import ApacheKafka\n"
        "kafka = ApacheKafka().start()\n"
        "print(kafka.pid, kafka.log_dir.parent, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, directory = run.stdout.readline().split()
        assert psutil.pid_exists(int(pid))
        run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 15
    while (psutil.pid_exists(int(pid)) or Path(directory).exists()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not psutil.pid_exists(int(pid))
    assert not Path(directory).exists()


@pytest.mark.java
def test_jars_come_from_the_cache_without_maven_the_second_time(monkeypatch):
    first = kafka_jars()

    def no_maven() -> Path:
        raise AssertionError("Maven was asked")

    monkeypatch.setattr("tests.support.maven.maven", no_maven)
    assert kafka_jars() == first
    assert any(jar.name == f"kafka-clients-{NEWEST_KAFKA}.jar" for jar in first)


@pytest.mark.java
def test_jars_without_their_dependencies_are_fetched_alone_and_again_when_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_TEST_CACHE", str(tmp_path))
    (jar,) = maven_jars("clients", [f"org.apache.kafka:kafka-clients:{NEWEST_KAFKA}"], transitive=False)
    assert (jar.name, tmp_path in jar.parents) == (f"kafka-clients-{NEWEST_KAFKA}.jar", True)
    size = jar.stat().st_size
    jar.write_bytes(b"half")
    assert maven_jars("clients", [f"org.apache.kafka:kafka-clients:{NEWEST_KAFKA}"], transitive=False) == [jar]
    assert jar.stat().st_size == size
    with pytest.raises(Unavailable, match="Maven could not resolve the jars of nothing"):
        maven_jars("nothing", ["org.apache.kafka:kafka-clients:0.0.0-none"])
    assert [entry.name for entry in (tmp_path / "jars").iterdir() if entry.is_dir()] == [jar.parent.name]


def test_coordinates_that_are_none_are_refused():
    for wrong in ("", "a:b", "a:b:c:d", "a::c"):
        with pytest.raises(ValueError, match="group:artifact:version"):
            maven_jars("wrong", [wrong])
    with pytest.raises(ValueError, match="at least one"):
        maven_jars("none", [])
    with pytest.raises(ValueError, match=r"2\.8\.2"):
        kafka_jars("2.8.2")


def test_a_failed_build_leaves_no_entry_and_two_processes_build_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_TEST_CACHE", str(tmp_path))

    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise Unavailable("no")

    with pytest.raises(Unavailable):
        cached_directory("kind", "entry", is_whole=lambda _: True, build=fail)
    assert [file.name for file in (tmp_path / "kind").iterdir()] == [".lock"]
    script = (
        "import time\n"
        "from pathlib import Path\n"
        "from tests.support.external_tools import cache_directory, cached_directory\n"
        "def build(directory):\n"
        "    with (cache_directory() / 'builds').open('a') as builds: builds.write('x')\n"
        "    time.sleep(0.5)\n"
        "    (directory / 'whole').touch()\n"
        "found = cached_directory('kind', 'entry', is_whole=lambda d: (d / 'whole').exists(), build=build)\n"
        "assert (found / 'whole').exists()\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) for _ in range(3)]
    assert [run.wait(30) for run in runs] == [0, 0, 0]
    assert (tmp_path / "builds").read_text() == "x"


@pytest.mark.java
@pytest.mark.parametrize("version", VERSIONS)
def test_a_java_program_runs_with_kafkas_classes(version, tmp_path):
    source = tmp_path / "Murmur2Oracle.java"
    source.write_text(MURMUR2)
    # The value that Kafka's own DefaultPartitioner tests pin for "aaa" is positive, so no masking is involved.
    assert run_java(source, version, args=["aaa"]) == "1941014727\n"
    assert run_java(source, version, stdin="aaa\n") == "1941014727\n"
    assert java_program(MURMUR2, kafka_jars(version), "aaa") == "1941014727\n"


@pytest.mark.java
def test_a_java_oracle_answers_line_by_line_and_says_why_it_ended():
    with JavaOracle(MURMUR2) as oracle:
        answers = [oracle.ask(word) for word in ("aaa", "", "aaa", "ß" * 40_000)]
        assert answers[0] == answers[2] == "1941014727"
        assert len(set(answers)) == 3
        with pytest.raises(ValueError, match="one line"):
            oracle.ask("two\nlines")
        with pytest.raises(JavaFailed, match=r"(?s)ended with 1 .*asked to end"):
            oracle.ask("end")
    with pytest.raises(JavaFailed, match="was closed"):
        oracle.ask("aaa")
    oracle.close()


@pytest.mark.java
def test_java_speaks_utf_8_in_any_locale(monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    echo = """
        public class Echo {
            public static void main(String[] args) throws Exception {
                for (String word : args) System.out.println(word);
                var in = new java.util.Scanner(System.in, java.nio.charset.StandardCharsets.UTF_8);
                while (in.hasNextLine()) System.out.println(in.nextLine());
            }
        }
    """
    assert java_program(echo, kafka_jars(), "größe", stdin="длина\n") == "größe\nдлина\n"
    with JavaOracle(echo) as oracle:
        assert oracle.ask("長さ") == "長さ"


@pytest.mark.java
def test_a_java_oracle_that_hangs_is_ended():
    with JavaOracle(MURMUR2) as oracle:
        assert oracle.ask("aaa") == "1941014727"
        with pytest.raises(JavaFailed, match="did not answer in time"):
            oracle.ask("hang", timeout=0.2)
        with pytest.raises(JavaFailed, match="was closed"):
            oracle.ask("aaa")


@pytest.mark.java
def test_java_that_does_not_compile_or_ends_badly_is_told():
    with pytest.raises(JavaFailed, match=r"(?s)Wrong\.java does not compile: .*cannot find symbol"):
        java_program("public class Wrong { Missing field; }", kafka_jars())
    with pytest.raises(JavaFailed, match=r"(?s)Exits ended with 3: complaint"):
        java_program(
            "public class Exits { public static void main(String[] args) {"
            ' System.err.println("complaint"); System.exit(3); } }',
            kafka_jars(),
        )
    with pytest.raises(ValueError, match="no public class"):
        java_program("class Hidden { }", [])


def fake_java(directory: Path, version_line: str, exit_code: int = 0) -> Path:
    directory.mkdir()
    program = directory / "java"
    program.write_text(f"#!/bin/sh\necho '{version_line}' >&2\nexit {exit_code}\n")
    program.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("version_line", "exit_code", "said"),
    [
        ('openjdk version "11.0.20" 2023-07-18', 0, "is Java 11"),
        ('java version "1.8.0_392"', 0, "is Java 8"),
        ("Unable to locate a Java Runtime.", 1, "does not say its version"),
    ],
)
def test_an_old_or_broken_java_gives_one_sentence_naming_the_package(
    tmp_path, monkeypatch, version_line, exit_code, said
):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "old", version_line, exit_code)))
    with pytest.raises(Unavailable, match=f"Java 17 or newer, and .* {said}; .*openjdk-17-jre-headless") as missing:
        external_tools.java()
    assert "\n" not in str(missing.value)


@pytest.mark.parametrize(
    "version_line", ['openjdk version "17"', 'openjdk version "21.0.1" 2023', 'java version "25-ea"']
)
def test_a_new_enough_java_is_taken_from_java_home_first(tmp_path, monkeypatch, version_line):
    (tmp_path / "home").mkdir()
    at_home = fake_java(tmp_path / "home" / "bin", version_line)
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", 'openjdk version "11.0.20"')))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert external_tools.java() == at_home / "java"


def test_no_java_no_maven_and_no_compiler_each_give_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"no java is on PATH; install it \(Debian: openjdk-17-jre-headless\)"):
        external_tools.java()
    with pytest.raises(Unavailable, match=r"no mvn is on PATH; install it \(Debian: maven\)"):
        external_tools.maven()
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "runtime-only", 'openjdk version "17"')))
    with pytest.raises(Unavailable, match=r"javac; install a JDK \(Debian: openjdk-17-jdk-headless\)"):
        external_tools.javac()


@pytest.mark.parametrize(
    ("promise", "has_java", "outcome", "sentence"),
    [
        ({}, False, "1 skipped", "no java is on PATH; install it (Debian: openjdk-17-jre-headless)"),
        ({}, True, "1 skipped", "no mvn is on PATH; install it (Debian: maven)"),
        ({"CI": "true"}, False, "1 error", "no java is on PATH; install it (Debian: openjdk-17-jre-headless)"),
        ({"SEAMARK_REQUIRE_KAFKA": "1"}, True, "1 error", "no mvn is on PATH; install it (Debian: maven)"),
    ],
)
def test_a_run_without_the_tools_skips_visibly_and_fails_where_they_are_promised(
    tmp_path, promise, has_java, outcome, sentence
):
    if has_java:
        fake_java(tmp_path / "bin", 'openjdk version "17.0.1"')
    kept = {
        name: value for name, value in os.environ.items() if name not in ("CI", "SEAMARK_REQUIRE_KAFKA", "JAVA_HOME")
    }
    environment = {**kept, "PATH": str(tmp_path / "bin"), "SEAMARK_TEST_CACHE": str(tmp_path / "cache"), **promise}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "-k", f"test_both_releases_answer_api_versions and {NEWEST_KAFKA}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == (1 if promise else 0), run.stdout
    assert sentence in run.stdout
    assert re.search(rf"\b{outcome}\b", run.stdout.splitlines()[-1]), run.stdout
    assert "Traceback" not in run.stdout
    assert "During handling" not in run.stdout


def test_a_test_that_uses_a_broker_fixture_counts_as_a_kafka_test():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "--collect-only", "-q", "-m", "not kafka and not java"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "test_coordinates_that_are_none_are_refused" in run.stdout
    assert "test_both_releases_answer_api_versions" not in run.stdout


def test_a_connection_serves_many_exchanges_and_a_bad_request_closes_it(apache_kafka):
    with Wire(apache_kafka.bootstrap) as wire:
        answers = [wire.exchange(request(18, 0, correlation_id)) for correlation_id in (1, 2)]
        assert [answer[4:8] for answer in answers] == [b"\0\0\0\1", b"\0\0\0\2"]
        assert answers[0][8:] == answers[1][8:]
        assert not wire.is_closed_by_peer(timeout=0.05)
        wire.send(framed(struct.pack(">hhih", 999, 0, 3, -1)))
        assert wire.is_closed_by_peer()

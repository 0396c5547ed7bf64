"""Which Java a local Spark session would run, and what is said where there is none fit; no JVM is started."""

import pytest

from seamark.spark.session import NoJava, find_java


def fake_java(directory, answer, code=0):
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "java"
    path.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def only_java_at(tmp_path, monkeypatch):
    """PATH with nothing but this directory, and no JAVA_HOME."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_a_new_enough_java_on_the_path_is_taken(only_java_at):
    path = fake_java(only_java_at, 'openjdk version "21.0.2" 2024-01-16')
    assert find_java() == path


def test_java_home_wins_over_the_path(only_java_at, tmp_path, monkeypatch):
    fake_java(only_java_at, 'openjdk version "21.0.2"')
    home = fake_java(tmp_path / "jdk" / "bin", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java() == home


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (None, 0, "no java is on PATH"),
        ('java version "1.8.0_392"', 0, "is Java 8"),
        ('openjdk version "11.0.22"', 0, "is Java 11"),
        ("cannot find a runtime", 1, "does not report its version"),
    ],
)
def test_a_missing_old_or_broken_java_is_one_sentence_with_the_remedy(only_java_at, answer, code, words):
    if answer is not None:
        fake_java(only_java_at, answer, code)
    with pytest.raises(NoJava) as refused:
        find_java()
    assert words in str(refused.value)
    assert str(refused.value).startswith("Spark needs Java 17 or newer")
    assert "openjdk-17-jre-headless" in str(refused.value)

"""Small Java programs run against Apache Kafka's own classes, as an oracle for ours.

A program is one source file with a ``main``. It is compiled once per machine (the cache key is its text, the compiler
and the class path) and runs on the jars of a Kafka release. ``run_java`` runs it to its end; ``JavaOracle`` keeps one
JVM for many questions: the program answers each line of stdin with exactly one line on stdout and ends at end of input.
"""

from __future__ import annotations

import hashlib
import os
import re
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.external_tools import cached_directory, java, javac
from tests.support.maven import NEWEST_KAFKA, class_path, kafka_jars, maven_jars

__all__ = [
    "JavaFailed",
    "JavaOracle",
    "compiled_java_command",
    "java_program",
    "maven_jars",
    "run_java",
    "short_lived_java",
    "utf_8_environment",
]

# A program that lives for a second gains nothing from the optimising compiler or from parallel collector threads.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")

# Java takes the terminal's encoding for its streams (by two names: before and since Java 19); ours are always UTF-8.
_UTF_8 = tuple(
    f"-D{name}=UTF-8"
    for name in ("file.encoding", "stdout.encoding", "stderr.encoding", "sun.stdout.encoding", "sun.stderr.encoding")
)

_ORACLE_ANSWER_LIMIT = 64 << 20


class JavaFailed(AssertionError):
    """A Java program did not compile, ended with an error or did not answer."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    main_class: str
    class_path: str


def short_lived_java(
    class_path: str, main_class: str, args: Sequence[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """The command line of a JVM tuned to start fast."""
    return _java(class_path, main_class, args, [*SHORT_LIVED, *options])


def _java(class_path: str, main_class: str, args: Sequence[str], options: Sequence[str]) -> list[str]:
    return [str(java()), *_UTF_8, *options, "-cp", class_path, main_class, *args]


def utf_8_environment() -> dict[str, str]:
    """The environment in which a JVM reads its arguments as UTF-8: only the locale decides that."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def run_java(
    source_path: str | Path,
    version: str = NEWEST_KAFKA,
    args: Sequence[str] = (),
    stdin: str | None = None,
    timeout: float = 60,
) -> str:
    """What the program prints on stdout when it runs with the jars of that Kafka release."""
    return java_program(source_path, kafka_jars(version), *args, stdin=stdin, timeout=timeout)


def java_program(
    source: str | Path, classpath: Sequence[Path], *args: str, stdin: str | None = None, timeout: float = 60
) -> str:
    """Compile and run a program given as a file, or as its text; returns its stdout."""
    program = _compile(source, classpath)
    command = short_lived_java(program.class_path, program.main_class, args)
    try:
        run = subprocess.run(
            command, env=utf_8_environment(), input=stdin or "", capture_output=True, encoding="utf-8", timeout=timeout,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise JavaFailed(f"{program.main_class} did not end within {timeout} s") from error
    if run.returncode != 0:
        raise JavaFailed(f"{program.main_class} ended with {run.returncode}: {run.stderr.strip()[-2000:]}")
    return run.stdout


def compiled_java_command(
    source: str | Path, classpath: Sequence[Path], args: Sequence[str] = (), options: Sequence[str] = SHORT_LIVED
) -> list[str]:
    """The command line that runs a program, compiled; for a caller who keeps the process himself."""
    program = _compile(source, classpath)
    return _java(program.class_path, program.main_class, args, options)


class JavaOracle:
    """A Java program that stays up and answers one line per line asked.

    The program must flush after each line and must print nothing else on stdout. Its stderr is shown when it fails.
    Threads may share an oracle: one question is under way at a time. ``options`` are the JVM's: a benchmark gives none.
    """

    def __init__(
        self,
        source_path: str | Path,
        version: str = NEWEST_KAFKA,
        *,
        args: Sequence[str] = (),
        classpath: Sequence[Path] = (),
        options: Sequence[str] = SHORT_LIVED,
    ) -> None:
        program = _compile(source_path, list(classpath) or kafka_jars(version))
        self._name = program.main_class
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            _java(program.class_path, program.main_class, args, options), env=utf_8_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._unread = bytearray()
        self._lock = threading.Lock()

    def ask(self, line: str, timeout: float = 30) -> str:
        """The answer to one question; neither may contain a line break."""
        if "\n" in line or "\r" in line:
            raise ValueError("a question to a Java oracle is one line")
        assert self._process.stdin is not None
        with self._lock:
            if self._process.stdin.closed:
                raise JavaFailed(f"{self._name} was closed")
            try:
                self._send(line.encode() + b"\n")
            except BrokenPipeError:
                raise self._ended() from None
            return self._answer(time.monotonic() + timeout)

    def _send(self, question: bytes) -> None:
        assert self._process.stdin is not None
        # An unbuffered pipe may take a long question in parts.
        rest = memoryview(question)
        while rest:
            rest = rest[self._process.stdin.write(rest) :]

    def _answer(self, deadline: float) -> str:
        assert self._process.stdout is not None
        while (end := self._unread.find(b"\n")) < 0:
            if len(self._unread) > _ORACLE_ANSWER_LIMIT:
                raise JavaFailed(f"{self._name} answered with more than {_ORACLE_ANSWER_LIMIT} bytes")
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                # A late answer would be taken for the answer to the next question.
                self.close()
                raise JavaFailed(f"{self._name} did not answer in time")
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                raise self._ended()
            self._unread += piece
        answer = bytes(self._unread[:end]).removesuffix(b"\r").decode()
        del self._unread[: end + 1]
        return answer

    def _ended(self) -> JavaFailed:
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return JavaFailed(f"{self._name} closed its output without an answer")
        self._stderr.seek(0)
        told = self._stderr.read().decode(errors="replace").strip()[-2000:]
        return JavaFailed(f"{self._name} ended with {code} instead of answering: {told}")

    def close(self) -> None:
        """End the program: by end of input, and by force when that is not heeded."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.stdin.closed:
            return
        self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._selector.close()
        self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _compile(source: str | Path, jars: Sequence[Path]) -> _Compiled:
    is_file = isinstance(source, Path) or ("\n" not in source and source.endswith(".java"))
    text = Path(source).read_text(encoding="utf-8") if is_file else str(source)
    named = re.search(r"^\s*public\s+(?:final\s+)?class\s+(\w+)", text, re.MULTILINE)
    if named is None:
        raise ValueError(f"{source if is_file else 'the Java source'} has no public class")
    name = named[1]
    package = re.search(r"^\s*package\s+([\w.]+)\s*;", text, re.MULTILINE)
    main_class = f"{package[1]}.{name}" if package else name
    jar_path = class_path(jars)
    compiler = javac()
    key = hashlib.sha256("\0".join([text, str(compiler.resolve()), *(jar.name for jar in jars)]).encode())

    def build(directory: Path) -> None:
        file = directory / f"{name}.java"
        file.write_text(text, encoding="utf-8")
        options = ["-encoding", "UTF-8", "-nowarn", "-proc:none", "-cp", jar_path, "-d", str(directory)]
        command = [str(compiler), *options, str(file)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if run.returncode != 0:
            raise JavaFailed(f"{name}.java does not compile: {(run.stderr or run.stdout).strip()[-4000:]}")

    def is_whole(directory: Path) -> bool:
        return directory.joinpath(*main_class.split(".")).with_suffix(".class").exists()

    directory = cached_directory("classes", f"{name}-{key.hexdigest()[:16]}", is_whole=is_whole, build=build)
    return _Compiled(main_class, f"{directory}{os.pathsep}{jar_path}")

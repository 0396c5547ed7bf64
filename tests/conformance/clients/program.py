"""A client of others in a process of its own, told what to do by lines of JSON.

Each process is one application: it writes, administers, or is one member of a group. Being a process it can be killed
like one. Both sides of the pipe are here for Python; Java's side is ``tests/conformance/java/ClientProgram.java``.

Orders (``{"do": name, …}``) and what they return:

``create``     topic, partitions           ``delete_topic``  topic
``topics``     -> names
``produce``    topic, codec, values: one record per value, in turn to each of the topic's partitions
``join``       group, topic, assignor, instance, session_ms: become a member, reading in the background
``status``     -> {"owned": partitions, "read": values so far}; more may be in it, for whoever reads a failure
``commit``     the position of everything owned -> {partition: offset}
``leave``      end the membership in good order
``describe``   group -> {"state": …, "members": count}
``offsets``    group, topic -> {partition: offset}
``reset``      group, topic, partition, offset
``delete_group`` group
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tests.support.java import compiled_java_command
from tests.support.maven import kafka_jars

ROOT = Path(__file__).parents[3]
JAVA_SOURCE = ROOT / "tests" / "conformance" / "java" / "ClientProgram.java"


class ProgramFailed(AssertionError):
    """The client raised, ended or did not answer."""


class ClientHung(ProgramFailed):
    """The client waits for itself, as its own stack proves: whatever the broker did, it is not the reason."""


# What a program says when it has that proof.
HUNG = "the client waits for its own I/O thread, in a call that needs no broker"


class ClientProgram:
    """The test's side: one client process."""

    def __init__(self, client: str, bootstrap: str) -> None:
        self._name = client
        if client == "java":
            command: Sequence[str] = compiled_java_command(JAVA_SOURCE, kafka_jars(), [bootstrap])
        else:
            command = [sys.executable, "-m", f"tests.conformance.clients.{client}_program", bootstrap]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._unread = b""

    def ask(self, do: str, seconds: float = 60.0, **arguments: Any) -> Any:
        """Give one order and return its result."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            raise ProgramFailed(f"{self._name} was killed before {do}")
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        except BrokenPipeError:
            raise self._failure(f"ended before {do}") from None
        answer = json.loads(self._line(time.monotonic() + seconds, do))
        if "error" in answer:
            kind = ClientHung if HUNG in answer["error"] else ProgramFailed
            raise kind(f"{self._name}: {do} failed: {answer['error']}")
        return answer["result"]

    def kill(self) -> None:
        """End it as a crash does: nobody is told."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _line(self, deadline: float, do: str) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._failure(f"did not answer {do} in time")
                piece = self._process.stdout.read(1 << 20)
                if not piece:
                    raise self._failure(f"ended in {do}")
                self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _failure(self, what: str) -> ProgramFailed:
        self._process.kill()
        assert self._process.stderr is not None
        told = self._process.stderr.read().decode(errors="replace").strip()[-2000:]
        return ProgramFailed(f"{self._name} {what}: {told}")


class Client(Protocol):
    """What a Python client program offers: one method per order."""

    def close(self) -> None: ...


def serve(make: Callable[[str], Client]) -> None:
    """The program's side: carry out orders until the input ends. Anything else that is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    client = make(sys.argv[1])
    for line in sys.stdin:
        arguments = json.loads(line)
        try:
            answer = {"result": getattr(client, arguments.pop("do"))(**arguments)}
        except Exception as error:  # noqa: BLE001 - told to the test, which fails by it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    client.close()

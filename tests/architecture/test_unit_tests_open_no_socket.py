"""The guard of ``tests/unit`` at work, on tests that break its rule and on tests that keep it."""

import shutil
import subprocess
import sys
from pathlib import Path

GUARD = Path(__file__).parents[1] / "unit" / "conftest.py"

TESTS = """
import asyncio
import contextlib
import socket

import pytest
import uvloop

from seamark import Broker


def test_connects():
    socket.create_connection(("127.0.0.1", 9), timeout=1)


def test_connects_and_hides_it():
    with contextlib.suppress(Exception):
        socket.create_connection(("127.0.0.1", 9), timeout=1)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_serves_on_a_loop(new_loop):
    async def serve():
        await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve())


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


def test_has_a_broker(broker):
    assert broker.bootstrap


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_keeps_the_rule(new_loop):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.to_thread(int))
    near, far = socket.socketpair()
    with near, far:
        near.send(b"x")
        assert far.recv(1) == b"x"
"""


ELSEWHERE = """
import socket


def test_serves_in_another_folder():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
"""


def test_a_unit_test_that_opens_a_socket_fails_and_any_other_passes(tmp_path):
    # In one run with tests of other folders, before and after: the guard is not theirs.
    for folder, text in (("a_part", ELSEWHERE), ("unit", TESTS), ("z_part", ELSEWHERE)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text(text)
    shutil.copy(GUARD, tmp_path / "unit" / "conftest.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", "--tb=line", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    outcomes = {}
    for line in ran.stdout.splitlines():
        outcome, _, name = line.partition(" ")
        if outcome in ("FAILED", "ERROR", "PASSED") and "::" in name:
            outcomes.setdefault(outcome, []).append(name.partition("::")[2].partition("[")[0].partition(" ")[0])
    assert {outcome: sorted(names) for outcome, names in outcomes.items()} == {
        "FAILED": ["test_connects", "test_connects_and_hides_it", *["test_serves_on_a_loop"] * 2],
        "ERROR": ["test_has_a_broker"],
        "PASSED": [*["test_keeps_the_rule"] * 2, *["test_serves_in_another_folder"] * 2],
    }, ran.stdout

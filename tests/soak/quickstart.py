"""The quickstart broken off by Ctrl-C at random moments, on a broker of its own and on a given cluster in turn.

Each time it exits with 130 (or 0 if it was done before), shows no traceback, leaves none of its processes behind, and
nothing on the given cluster. At the end it runs through once, over the directory that the broken ones left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from seamark import Broker
from seamark.client import Admin
from tests.support.terminal import PseudoTerminal

INTERRUPTIONS = 20
ROWS = 5_000
_SEAMARK = Path(sys.executable).with_name("seamark")


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    count = max(2, round(INTERRUPTIONS * scale))
    seed = int(os.environ.get("SEAMARK_SEED") or random.SystemRandom().randrange(2**32))
    chance = random.Random(seed)
    failures: list[str] = []
    codes: list[int] = []
    with tempfile.TemporaryDirectory(prefix="seamark-soak-") as name, Broker() as broker:
        directory = Path(name)
        whole = time.monotonic()
        told = _run_through(directory)
        whole = time.monotonic() - whole
        for number in range(count):
            words = ["--bootstrap", broker.bootstrap] if number % 2 else []
            moment = chance.uniform(0.5, whole)
            code, problems = _break_off(directory, words, moment)
            codes.append(code)
            failures += [f"number {number} after {moment:.1f} s: {problem}" for problem in problems]
            failures += [f"number {number}: {left!r} is left on the cluster" for left in _left(broker)]
        again = _run_through(directory)
        failures += [] if _kinds(again) == _kinds(told) else [f"the last run found {_kinds(again)}, not {_kinds(told)}"]
    return {
        "ok": not failures,
        "seed": seed,
        "interruptions": codes.count(130),
        "done_before": codes.count(0),
        "whole_run_s": round(whole, 1),
        "failures": failures,
        "seconds": round(time.monotonic() - begin, 1),
    }


def _run_through(directory: Path) -> dict[str, object]:
    ran = subprocess.run(
        [_SEAMARK, "quickstart", "--rows", str(ROWS), "--out", directory / "out", "--json"],
        cwd=directory, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    return json.loads(ran.stdout)


def _kinds(told: dict[str, object]) -> list[object]:
    return [(each["group"], each["findings"]) for each in told["groups"]]


def _break_off(directory: Path, words: list[str], moment: float) -> tuple[int, list[str]]:
    command = [_SEAMARK, "quickstart", "--rows", str(ROWS), "--out", directory / "out", *words]
    with PseudoTerminal(command, 80, cwd=directory) as terminal:
        family: list[psutil.Process] = []

        def interrupt() -> None:
            # It may have ended by itself.
            if terminal.process.poll() is None:
                family.extend(psutil.Process(terminal.process.pid).children(recursive=True))
                os.kill(terminal.process.pid, signal.SIGINT)

        timer = threading.Timer(moment, interrupt)
        timer.start()
        code = terminal.wait(120)
        timer.cancel()
        timer.join()
        problems = [] if code in (0, 130) else [f"it exited with {code}: {terminal.text[-300:]!r}"]
        problems += ["a traceback was shown"] if "Traceback" in terminal.text else []
    _, alive = psutil.wait_procs(family, timeout=20)
    return code, problems + [f"process {each.pid} ({' '.join(each.cmdline()[:2])}) is left" for each in alive]


def _left(broker: Broker) -> list[str]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return [*admin.list_topics(), *(each.group_id for each in admin.list_groups())]

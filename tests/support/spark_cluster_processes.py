"""A Spark standalone cluster from the wheel's own scripts, and programs that run on it with packed environments.

The wheel has no start scripts for a master or a worker, but ``spark-class`` starts their classes. Everything runs on
loopback and ends with the ``with`` block.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

import seamark
from tests.support.spark_session import QUICK_JAVA, quiet_settings, spark_environment

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """A master and workers with a core each; gives the master's address."""
    with ExitStack() as running:
        log = directory / "master.log"
        running.enter_context(
            _process("org.apache.spark.deploy.master.Master", log, "--host", "127.0.0.1", "--port", "0")
        )
        master = _wait_for(log, r"Starting Spark master at (spark://[^\s]+)")
        logs = [directory / f"worker-{number}.log" for number in range(workers)]
        for log in logs:
            place = log.with_suffix("")
            place.mkdir()
            running.enter_context(
                _process(
                    "org.apache.spark.deploy.worker.Worker",
                    log,
                    "--host",
                    "127.0.0.1",
                    "--cores",
                    "1",
                    "--memory",
                    "700m",
                    "--work-dir",
                    str(place),
                    "--webui-port",
                    "0",
                    master,
                )
            )
        # Side by side: each is a JVM that starts.
        for log in logs:
            _wait_for(log, r"(Successfully registered with master)")
        yield master


@contextmanager
def _process(main_class: str, log: Path, *args: str) -> Iterator[None]:
    environment = {**os.environ, **spark_environment(), "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA, "SPARK_WORKER_CORES": "1"}
    if "Master" in main_class:
        args = (*args, "--webui-port", "0")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(_SPARK_CLASS), main_class, *args], stdout=output, stderr=output, env=environment, cwd=log.parent
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(log: Path, pattern: str, seconds: float = 90) -> str:
    end = time.monotonic() + seconds
    while True:
        text = log.read_text(errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        assert time.monotonic() < end, f"{log.name} does not say {pattern!r}: {text[-2000:]}"
        time.sleep(0.1)


def make_environment(directory: Path, *, with_seamark: bool) -> Path:
    """A Python environment with the dependencies of this one, and with Seamark only if it is asked for."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
    packages = next((directory / "lib").glob("python*")) / "site-packages"
    # A plain path: the editable install of Seamark that stands beside the dependencies is not followed from here.
    (packages / "dependencies.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n")
    if with_seamark:
        shutil.copytree(
            Path(seamark.__file__).parent, packages / "seamark", ignore=shutil.ignore_patterns("__pycache__")
        )
    return directory


def archive_of(environment: Path, target: Path) -> Path:
    with tarfile.open(target, "w:gz") as archive:
        archive.add(environment, arcname=".")
    return target


def zip_of_seamark(target: Path) -> Path:
    """The package as ``--py-files`` takes it."""
    root = Path(seamark.__file__).parents[1]
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted((root / "seamark").rglob("*.py")):
            archive.write(file, file.relative_to(root))
    return target


def run_program(
    source: str,
    *args: str,
    directory: Path,
    python: str = sys.executable,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 240,
) -> str:
    """Run a Spark program as a process of its own in ``directory``; what it prints. ``settings`` are Spark's."""
    directory.mkdir(exist_ok=True)
    (directory / "program.py").write_text(source)
    chosen = quiet_settings(directory) | dict(settings or {})
    submit = " ".join(f'--conf "{key}={value}"' for key, value in chosen.items())
    run = subprocess.run(
        [python, "program.py", *args],
        cwd=directory,
        env={
            **os.environ,
            **spark_environment(),
            "PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert run.returncode == 0, f"the program ended with {run.returncode}: {run.stderr[-4000:]}"
    return run.stdout

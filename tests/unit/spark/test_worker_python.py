"""The Python of Spark's workers: the driver's own is started by a script that leaves Spark's zipped pyspark out."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from seamark.spark import worker_python
from seamark.spark.worker_python import LAUNCHER, choose_python

LIB = Path(pyspark.__file__).parent / "python" / "lib"


def chosen(python=sys.executable, master="local[2]"):
    """A Spark context, as far as it is looked at, after a Python was chosen for it."""
    context = SimpleNamespace(master=master, pythonExec="python3", environment={"PYTHONHASHSEED": "0"})
    choose_python(context, python)
    return context


def run(context, path, *arguments):
    environment = os.environ | context.environment | {"PYTHONPATH": ":".join(map(str, path))}
    command = [context.pythonExec, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_workers_import_the_installed_pyspark_and_keep_the_rest_of_the_path():
    path = [LIB / "pyspark.zip", LIB / "py4j-0.10.9.9-src.zip", "/a b/*.zip", "/other/lib/pyspark.zip", "/more"]
    program = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])"

    told = run(chosen(), path, "-c", program, "one two", "$HOME")

    assert told == ["/a b/*.zip:/other/lib/pyspark.zip:/more", "['one two', '$HOME']"]


def test_the_zip_is_known_by_any_name_of_its_directory(tmp_path):
    (tmp_path / "lib").symlink_to(LIB)
    program = "import os; print(os.environ['PYTHONPATH'])"

    assert run(chosen(), [f"{LIB}//pyspark.zip", tmp_path / "lib" / "pyspark.zip", "/more"], "-c", program) == ["/more"]


def test_workers_run_the_python_of_the_driver():
    assert run(chosen(), [], "-c", "import sys; print(sys.executable)") == [sys.executable]


def test_another_name_of_the_same_python_is_the_same_choice(monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))

    assert chosen("python").pythonExec == str(LAUNCHER)


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", "yarn", "k8s://host"])
def test_workers_on_other_machines_are_started_as_spark_does(master):
    context = chosen(master=master)

    assert (context.pythonExec, context.environment) == (sys.executable, {"PYTHONHASHSEED": "0"})


def test_another_python_than_the_drivers_is_started_as_spark_does(tmp_path):
    # The same interpreter, but of another environment, whose pyspark nobody knows.
    other = tmp_path / "python"
    other.symlink_to(sys.executable)

    assert chosen(str(other)).pythonExec == str(other)
    assert chosen("./no/such/python").pythonExec == "./no/such/python"


def test_a_pyspark_that_is_not_installed_is_taken_from_the_zip(monkeypatch, tmp_path):
    monkeypatch.setattr(worker_python, "_site_directories", lambda: [str(tmp_path)])

    assert chosen().pythonExec == sys.executable


def test_where_nothing_can_be_run_workers_start_the_slow_way(monkeypatch):
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != LAUNCHER and access(path, mode))

    assert chosen().pythonExec == sys.executable

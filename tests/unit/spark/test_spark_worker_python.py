"""The Python of a local session's workers: started by a script that leaves Spark's zipped pyspark out of the path."""

import os
import subprocess
import sys

from seamark.spark.worker_python import worker_settings


def test_workers_import_the_installed_pyspark_and_keep_the_rest_of_the_path(tmp_path):
    directory = tmp_path / "it's a session"
    directory.mkdir()
    settings = worker_settings(directory)
    path = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/a b/code.zip", "/more"]

    program = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])"

    answer = subprocess.run(
        [settings["spark.pyspark.python"], "-c", program, "one two", "$HOME"],
        env={**os.environ, "PYTHONPATH": ":".join(path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert answer.stdout.splitlines() == ["/a b/code.zip:/more", "['one two', '$HOME']"]


def test_workers_run_the_python_of_the_driver(tmp_path):
    settings = worker_settings(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    answer = subprocess.run(
        [settings["spark.pyspark.python"], "-c", "import sys; print(sys.executable)"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert answer.stdout.strip() == sys.executable


def test_where_nothing_can_be_run_workers_start_the_slow_way(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)

    assert worker_settings(tmp_path)["spark.pyspark.python"] == sys.executable

"""Spark for commands about the lake: started quietly, ended cleanly, its errors turned into one sentence.

What Spark, the JVM and its workers say goes to a log. It is thrown away with the session unless the command fails by
something that is not ours; then the log is kept and named.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import MissingExtra, SeamarkError
from seamark.readable_log import ReadableFormatter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Our errors in a worker reach the driver as the last line of a traceback within Spark's own error.
_OURS = re.compile(r"^\s*seamark(?:\.\w+)+: (.+)$", re.MULTILINE)


def require_spark() -> None:
    """One sentence if the audit cannot run here, before anything is begun: NoJava or MissingExtra."""
    from seamark.spark.session import find_java

    require_packages()
    find_java()


def require_packages() -> None:
    """MissingExtra if what reads the offsets topic is not installed."""
    if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "numba")):
        raise MissingExtra("seamark audit", "spark")


@contextmanager
def spark_session(name: str, *, quick: bool = False) -> Iterator[SparkSession]:
    """A session on all cores of this machine, with ``format("seamark")``; NoJava or MissingExtra if it cannot be.

    ``quick`` is for one question of somebody who waits.
    """
    from seamark.spark import register
    from seamark.spark.session import LocalSession

    directory = Path(tempfile.mkdtemp(prefix="seamark-spark-"))
    # Two hundred parts, Spark's own choice, are for clusters: most audits are done before that many have begun.
    settings = {"spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1))}
    if threading.current_thread() is threading.main_thread():
        # Spark's own answer to Ctrl-C talks to the JVM in the middle of another call; closing ends all jobs.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _unasked_warnings(), LocalSession(directory, name=name, settings=settings, quick=quick) as session:
            register(session.spark)
            try:
                with _only_our_words():
                    yield session.spark
            except (SeamarkError, OSError):
                raise
            except Exception as error:
                # While the session is there: Spark's errors ask the JVM for their text.
                raise _translated(error, directory) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _unasked_warnings() -> Iterator[None]:
    """After an interrupted call the JVM is ended by force, which Spark finds worth a warning and nobody else does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
        yield


@contextmanager
def _only_our_words() -> Iterator[None]:
    """Show warnings of ours; what py4j and Spark log about an interrupted call is no news to who interrupted it."""
    silent, told = logging.NullHandler(), logging.StreamHandler()
    told.setLevel(logging.WARNING)
    told.setFormatter(ReadableFormatter("seamark: %(message)s"))
    # The command itself shows what clients say.
    told.addFilter(lambda record: not record.name.startswith("seamark.client"))
    root, ours = logging.getLogger(), logging.getLogger("seamark")
    # It stays: the session is closed after this, and has the most to say then.
    root.addHandler(silent)
    ours.addHandler(told)
    try:
        yield
    finally:
        ours.removeHandler(told)


def _translated(error: Exception, directory: Path) -> SeamarkError:
    text = str(error)
    if ours := _OURS.findall(text):
        return SeamarkError(ours[-1].partition(" SQLSTATE")[0].strip())
    told = next((line.strip() for line in text.splitlines() if line.strip()), error.__class__.__name__)
    where = f"; {_kept(directory)} has details" if (directory / "spark.log").exists() else ""
    return SeamarkError(f"the Spark job failed: {told[:300]}{where}")


def _kept(directory: Path) -> Path:
    """Where the session's log is kept when its directory goes."""
    kept = Path(tempfile.mkdtemp(prefix="seamark-log-")) / "spark.log"
    shutil.copyfile(directory / "spark.log", kept)
    return kept

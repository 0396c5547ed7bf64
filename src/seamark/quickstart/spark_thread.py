"""The one thread that talks to Spark, so that the main thread stays free for the screen and for Ctrl-C.

The session is started as soon as the thread is made: the JVM gets ready while consumers work. Whoever waits for a piece
of work gives a function that is called meanwhile. Closing ends whatever Spark is doing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.spark.session import LocalSession

T = TypeVar("T")
# Compiling code for each query, and planning it again while it runs, costs more than a few thousand rows bring back:
# a third of the JVM's processor time in this story.
_SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_LOOK_S = 0.2


class SparkThread:
    """Use ``spark_thread``, which closes it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, "seamark-quickstart-spark")
        self._session: LocalSession | None = None
        self._started = self._thread.submit(self._start)
        self._last: Future[Any] = self._started

    def _start(self) -> None:
        import seamark.spark
        from seamark.spark.session import LocalSession

        self._session = LocalSession(
            self._directory,
            cores=2,
            settings=_SMALL,
            name="seamark quickstart",
            quick=True,
        )
        seamark.spark.register(self._session.spark)

    def ready(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait for the session."""
        _wait(self._started, meanwhile)

    def run(self, work: Callable[[SparkSession], T], meanwhile: Callable[[], object] = lambda: None) -> T:
        """Do a piece of work; SeamarkError with the reason in one line if Spark fails."""

        def within() -> T:
            self._started.result()
            assert self._session is not None
            return work(self._session.spark)

        asked = self._thread.submit(within)
        self._last = asked
        try:
            return _wait(asked, meanwhile)
        except SeamarkError:
            raise
        except Exception as error:
            raise SeamarkError(f"Spark failed: {_reason(error)}; its log is {self._directory / 'spark.log'}") from error

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        # A session that is just starting cannot be ended before it is there, which takes seconds.
        wait([self._started], 60)
        if self._session is not None:
            if not self._last.done():
                # A call into the JVM ends only with the JVM.
                self._session.kill()
            self._session.close()
        self._thread.shutdown(wait=True)


def _wait(future: Future[T], meanwhile: Callable[[], object]) -> T:
    while not future.done():
        wait([future], _LOOK_S)
        meanwhile()
    return future.result()


@contextlib.contextmanager
def spark_thread(directory: Path) -> Iterator[SparkThread]:
    thread = SparkThread(directory)
    try:
        yield thread
    finally:
        thread.close()


def _reason(error: Exception) -> str:
    """The last line that says something: Spark puts the cause at the end of many."""
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if line.startswith("seamark.")]
    said = ours or [line for line in lines if line and not line.startswith("at ")]
    return said[-1 if ours else 0][:300] if said else error.__class__.__name__

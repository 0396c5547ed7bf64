"""Making the source known to a session, and Spark's workers able to find it.

``register`` is all that a program calls. It registers the data source, sees to it that workers run the same Python as
the driver where the user has not chosen one, and adds the listener that makes progress visible: a log line per batch,
lag as metrics, and, when it is told how to reach Kafka, group commits without waiting for the next trigger.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seamark.errors import MissingExtra
from seamark.spark.worker_python import choose_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.spark.watch.listener import ProgressListener


def register(
    spark: SparkSession, *, commit_with: Mapping[str, str] | None = None, metrics_port: int | None = None
) -> ProgressListener:
    """Make ``format("seamark")`` known to the session; may be called again.

    ``commit_with`` are ``kafka.`` options for this process, as a reader takes them: with them a batch is committed to
    its group as soon as Spark reports it, which matters for long triggers, ``once`` and ``stop()``; without them it is
    committed when the next trigger or the next run begins. ``metrics_port`` serves lag for Prometheus on loopback.
    """
    try:
        from seamark.spark.source import SeamarkDataSource
        from seamark.spark.watch.listener import ProgressListener
    except ImportError as missing:
        raise MissingExtra("reading Kafka with Spark", "spark") from missing
    listener = ProgressListener.of(commit_with, metrics_port)
    _use_our_python(spark)
    spark.dataSource.register(SeamarkDataSource)
    previous = _listeners.pop(id(spark), None)
    if previous is not None:
        spark.streams.removeListener(previous)
        previous.close()
    spark.streams.addListener(listener)
    _listeners[id(spark)] = listener
    return listener


_listeners: dict[int, Any] = {}


def _use_our_python(spark: SparkSession) -> None:
    """Workers start ``python3`` by default, which seldom has what this process has."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return
    context = spark.sparkContext
    # Spark itself takes the variable, but the setting only where spark-submit has started the driver.
    is_chosen = "PYSPARK_PYTHON" in os.environ
    chosen = context.pythonExec if is_chosen else spark.conf.get("spark.pyspark.python", None)
    choose_python(context, chosen or sys.executable)

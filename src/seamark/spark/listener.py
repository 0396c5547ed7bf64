"""The listener in the user's process: a log line per batch, lag as metrics, and prompt commits.

Spark calls it after a batch is in the checkpoint, one event at a time and in order. It is only ever a help: the source
commits by itself when the next trigger or the next run begins, and an event that is lost with the process is caught up
there. The source may commit at the same time, so the group is asked before each commit and never moved backwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from seamark.errors import ConfigError
from seamark.spark.cluster import Cluster, KafkaCluster
from seamark.spark.group_commits import GroupCommits
from seamark.spark.metrics_page import MetricsPage
from seamark.spark.options import client_config
from seamark.spark.progress import LagMetrics, SourceProgress, batch_line, source_progress

log = logging.getLogger("seamark.spark")


class ProgressListener(StreamingQueryListener):
    """What ``register`` returns: ``metrics`` for the text, ``page`` for the port it is served at."""

    def __init__(self, cluster: Cluster | None = None, metrics_port: int | None = None) -> None:
        self.metrics = LagMetrics()
        self._cluster = cluster
        self._groups: dict[str, GroupCommits] = {}
        self.page = MetricsPage(metrics_port, self.metrics.text) if metrics_port is not None else None

    @classmethod
    def of(cls, commit_with: Mapping[str, str] | None, metrics_port: int | None) -> ProgressListener:
        """Check the arguments of ``register`` before Spark is told anything."""
        if metrics_port is not None and (isinstance(metrics_port, bool) or not 0 <= metrics_port < 65536):
            raise ConfigError("metrics_port", metrics_port, "is a port number, 0 for any that is free")
        cluster = None
        if commit_with is not None:
            unknown = [name for name in commit_with if not name.lower().startswith("kafka.")]
            if unknown:
                raise ConfigError("commit_with", unknown[0], "takes kafka. options only")
            cluster = KafkaCluster(client_config({name.lower(): value for name, value in commit_with.items()}))
        return cls(cluster, metrics_port)

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        query = progress.name or str(progress.id)
        sources = [
            found
            for each in progress.sources
            if (found := source_progress(each.endOffset, each.latestOffset, each.numInputRows)) is not None
        ]
        if not sources:
            return
        self.metrics.progressed(str(progress.id), query, progress.batchId, sources)
        for source in sources:
            self._commit(source, str(progress.id), progress.batchId)
            log.info("%s", batch_line(query, progress.batchId, source))

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.metrics.ended(str(event.id))

    def close(self) -> None:
        if self.page is not None:
            self.page.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _commit(self, source: SourceProgress, query: str, batch: int) -> None:
        group = source.ends.group
        if self._cluster is None or group is None or (source.commits or "").startswith("off"):
            return
        commits = self._groups.setdefault(group, GroupCommits(self._cluster, group))
        commits.forget()
        if not commits.durable(source.ends, int(time.monotonic() * 1000), query, batch):
            log.warning("group %s: %s; the next trigger tries again", group, commits.status)

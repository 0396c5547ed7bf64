"""The listener in the user's process: a log line per batch, lag as metrics, and prompt commits.

Spark calls it after a batch is in the checkpoint, one event at a time and in order. It is only ever a help: the source
commits by itself when the next trigger or the next run begins, and an event that is lost with the process is caught up
there. Both commit by the rules of ``group_commits``, so neither undoes what the other did.

Spark drops what a listener raises, so nothing may be raised here: it is logged. What the source says about its commits
is logged here too, because a source's own log ends up on the driver's standard error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from seamark.errors import ConfigError
from seamark.readable_log import readable_logger
from seamark.spark.read.cluster import Cluster
from seamark.spark.read.group_commits import CONFLICT, OFF, GroupCommits
from seamark.spark.read.options import client_config
from seamark.spark.watch.progress import LagMetrics, MetricsPage, SourceProgress, batch_line, source_progress

log = readable_logger("seamark.spark")


class ProgressListener(StreamingQueryListener):
    """What ``register`` returns: ``metrics`` for the text, ``page`` for the port it is served at."""

    def __init__(self, cluster: Cluster | None = None, metrics_port: int | None = None) -> None:
        self.metrics = LagMetrics()
        self._cluster = cluster
        # By the run of a query and its source: a new run takes the group as it then stands.
        self._commits: dict[tuple[str, str], GroupCommits] = {}
        self._warned: dict[tuple[str, str], str] = {}
        self.page = MetricsPage(metrics_port, self.metrics.text) if metrics_port is not None else None

    @classmethod
    def of(cls, commit_with: Mapping[str, str] | None, metrics_port: int | None) -> ProgressListener:
        """Check the arguments of ``register`` before Spark is told anything."""
        if metrics_port is not None and (isinstance(metrics_port, bool) or not 0 <= metrics_port < 65536):
            raise ConfigError("metrics_port", metrics_port, "must be a port number, or 0 for a free port")
        cluster = None
        if commit_with is not None:
            unknown = [name for name in commit_with if not name.lower().startswith("kafka.")]
            if unknown:
                raise ConfigError("commit_with", unknown[0], "accepts only options that begin with kafka.")
            from seamark.spark.read.kafka_cluster import KafkaCluster

            cluster = KafkaCluster(client_config({name.lower(): value for name, value in commit_with.items()}))
        return cls(cluster, metrics_port)

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        try:
            self._progressed(event.progress)
        except Exception:
            log.exception("query %s: its progress could not be reported or committed", event.progress.id)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.metrics.ended(str(event.id))
        for told in (self._commits, self._warned):
            for key in [key for key in told if key[0] == str(event.runId)]:
                del told[key]

    def close(self) -> None:
        if self.page is not None:
            self.page.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _progressed(self, progress: Any) -> None:
        query = progress.name or str(progress.id)
        sources = [
            made
            for source in progress.sources
            if (made := source_progress(source.endOffset, source.latestOffset, source.numInputRows)) is not None
        ]
        if not sources:
            return
        for place, source in enumerate(sources):
            self._warn(source, query, (str(progress.runId), source.ends.query))
            sources[place] = self._commit(source, progress)
            log.info("%s", batch_line(query, progress.batchId, sources[place]))
        self.metrics.progressed(str(progress.id), query, progress.batchId, sources)

    def _commit(self, source: SourceProgress, progress: Any) -> SourceProgress:
        """Commit the batch, unless its source has a reason not to; the progress with what came of it."""
        group = source.ends.group
        if self._cluster is None or group is None or source.commits_kind in (OFF, CONFLICT):
            return source
        key = (str(progress.runId), source.ends.query)
        if key not in self._commits:
            self._commits[key] = GroupCommits(self._cluster, group, is_beside_source=True)
        commits = self._commits[key]
        commits.durable(source.ends, int(time.monotonic() * 1000), str(progress.id), progress.batchId)
        return replace(source, commits=commits.status)

    def _warn(self, source: SourceProgress, query: str, key: tuple[str, str]) -> None:
        """Log once when the source of a query begins not to commit."""
        kind = source.commits_kind
        if kind is None or source.ends.group is None:
            return
        if not source.is_committing and kind != self._warned.get(key):
            log.warning("query %s, group %s: %s", query, source.ends.group, source.commits)
        self._warned[key] = kind

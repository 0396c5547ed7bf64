"""The lag of running queries as a page of metrics: what the listener serves over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from seamark.errors import UsageError
from seamark.spark.watch.listener import ProgressListener
from tests.support.spark_cluster import MemoryCluster
from tests.unit.spark.watch.test_listener import ENDED, end_of, event


def test_metrics_are_served_and_forgotten_with_the_query():
    cluster = MemoryCluster(orders=[50])
    listener = ProgressListener(metrics_port=0)
    try:
        listener.onQueryProgress(event(end_of(cluster, 10), name="billing"))
        address = f"http://127.0.0.1:{listener.page.port}"
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            text = answer.read().decode()
        assert 'seamark_spark_lag_records{query="billing",group="g",topic="orders",partition="0"} 3\n' in text
        assert 'seamark_spark_lag_seconds{query="billing",group="g",topics="orders"} 1.5\n' in text
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(address)
        with pytest.raises(UsageError, match="the address is in use"):
            ProgressListener(metrics_port=listener.page.port)
        listener.onQueryTerminated(ENDED)
        assert "billing" not in listener.metrics.text()
    finally:
        listener.close()

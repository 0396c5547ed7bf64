"""One Spark session and one Apache Kafka for all Spark tests; topics, groups and directories are named anew by each.

Without Java the tests are skipped with the reason; without Maven only those that compare with Spark's own connector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.external_tools import java
from tests.support.spark_session import connector_jars, local_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from seamark import Broker
    from seamark.client import Admin
    from tests.support.commands import Ran
    from tests.support.guarded_kafka import GuardedKafka


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The run's session on local[2], with ``format("seamark")`` registered."""
    import seamark.spark

    java()
    with local_session() as session:
        seamark.spark.register(session)
        yield session


@pytest.fixture(scope="session")
def spark_with_connector(spark: SparkSession) -> SparkSession:
    """The same session; skipped where Spark's own Kafka source cannot be had."""
    connector_jars()
    return spark


@pytest.fixture(scope="session")
def our_broker() -> Iterator[Broker]:
    """The run's embedded broker."""
    from seamark import Broker

    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def our_admin(our_broker: Broker) -> Iterator[Admin]:
    from seamark.client import Admin

    with Admin(bootstrap_servers=our_broker.bootstrap, default_api_timeout_ms=30_000) as admin:
        yield admin


@pytest.fixture(scope="session")
def guarded_kafka() -> Iterator[GuardedKafka]:
    """The run's Apache Kafka with access rules."""
    from tests.support.guarded_kafka import GuardedKafka

    with GuardedKafka() as kafka:
        yield kafka


@pytest.fixture
def seamark(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark: SparkSession
) -> Callable[..., Ran]:
    """Runs a command in a directory of its own, on the Spark session of the tests."""
    from seamark.cli.audit import spark as audit_spark
    from tests.support.commands import command_runner

    @contextmanager
    def session(_: str, **options: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(audit_spark, "spark_session", session)
    monkeypatch.chdir(tmp_path)
    run = command_runner(capsys, monkeypatch)
    return lambda *arguments: run(*map(str, arguments))

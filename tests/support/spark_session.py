"""A quiet local Spark session, with Spark's own Kafka connector on its class path where Maven can fetch it.

One JVM serves a whole run: starting it and its first Python source takes longer than most tests together. It compiles
with the quick compiler only, and its stderr goes to a file that is shown when the session cannot start.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.spark.worker_python import PATIENCE
from tests.support.external_tools import Unavailable, java
from tests.support.maven import maven_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.shell.name = org.apache.spark.repl.Main
logger.shell.level = error
"""

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def connector_jars() -> list[Path]:
    """The jars of Spark's own Kafka source; ``Unavailable`` without Maven."""
    # Not resolved transitively: one of them names a parent that is not published.
    return maven_jars("spark-kafka", CONNECTOR, transitive=False)


def spark_environment() -> dict[str, str]:
    """What a process needs to start Spark here: loopback only, and the workers' Python."""
    return {
        "JAVA_HOME": str(java().resolve().parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONWARNINGS": "ignore",
    }


def quiet_settings(directory: Path, java_options: str = QUICK_JAVA) -> dict[str, str]:
    """Settings of a session that writes nothing but errors, all its files in ``directory``."""
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING)
    return {
        "spark.driver.extraJavaOptions": f"{java_options} -Dlog4j2.configurationFile={logging}",
        "spark.executor.extraJavaOptions": java_options,
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **PATIENCE,
    }


@contextmanager
def local_session(
    master: str = "local[2]", settings: Mapping[str, str] | None = None, java_options: str = QUICK_JAVA
) -> Iterator[SparkSession]:
    """A session of its own in this process; there may be one at a time."""
    environment = spark_environment()
    previous = {name: os.environ.get(name) for name in environment}
    with tempfile.TemporaryDirectory(prefix="seamark-spark-") as name, (Path(name) / "jvm.log").open("w+") as stderr:
        directory = Path(name)
        os.environ.update(environment)
        try:
            chosen = quiet_settings(directory, java_options) | dict(settings or {})
            session = _start(master, chosen, stderr)
        except BaseException:
            stderr.seek(0)
            sys.stderr.write(stderr.read()[-4000:])
            raise
        finally:
            for variable, value in previous.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value
        try:
            yield session
        finally:
            _stop(session)


def _start(master: str, settings: Mapping[str, str], stderr: object) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    jars: list[Path] = []
    try:
        jars = connector_jars()
    except Unavailable as missing:
        print(f"the Spark session has no Kafka connector: {missing}", file=sys.stderr)
    conf = SparkConf().setMaster(master).setAppName("seamark-tests")
    for key, value in settings.items():
        conf.set(key, value)
    if jars:
        conf.set("spark.jars", ",".join(map(str, jars)))
    gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})
    return SparkSession(SparkContext(gateway=gateway, conf=conf))


def _stop(session: SparkSession) -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(30)


def our_sentence(error: BaseException) -> str:
    """The end of the Python traceback in Spark's error: the class and the sentence.

    Behind it stand only things that Spark adds to every error: its state, the plan of a streaming query, Java's stack.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if re.match(r"seamark(\.\w+)+: ", line)]
    return ours[-1].partition(" SQLSTATE")[0] if ours else f"no sentence of ours in: {lines[-3:]}"


def told_by(progress: Mapping[str, Any], source: int = 0) -> dict[str, Any]:
    """What the source tells about itself in a query's progress, under ``seamark``."""
    latest = progress["sources"][source]["latestOffset"]
    return (json.loads(latest) if isinstance(latest, str) else latest)["seamark"]

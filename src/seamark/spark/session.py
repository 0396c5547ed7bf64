"""A Spark session on this machine for commands of ours, which keeps the screen clean.

Whatever Spark, the JVM or a Python worker has to say goes to ``spark.log`` in the session's directory; if the session
cannot start, the error names that file. The JVM runs in a session of its own: Ctrl-C in the terminal reaches this
process only, which decides what ends and in which order. ``find_java`` says in one sentence what is missing.

Invariant: whatever happens, ``close`` leaves no process behind. If this process is killed, the JVM sees its input end.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import MissingExtra, SeamarkError
from seamark.readable_log import readable_logger
from seamark.spark.worker_python import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = readable_logger("seamark.spark")
# The oldest Java that Spark 4 runs on.
OLDEST_JAVA = 17
# How long the JVM may take to end by itself before it is killed.
_END_S = 10.0

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


class NoJava(SeamarkError):
    """Spark cannot run here because Java is missing or too old."""


class SparkFailed(SeamarkError):
    """The session did not start; its log says more."""


def find_java() -> Path:
    """The ``java`` that Spark will run: that of JAVA_HOME, else the first on PATH; NoJava if there is none fit."""
    wanted = f"Spark needs Java {OLDEST_JAVA} or newer"
    remedy = f"install it (Debian: openjdk-{OLDEST_JAVA}-jre-headless)"
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    if home and os.access(Path(home) / "bin" / "java", os.X_OK):
        java = Path(home) / "bin" / "java"
    elif on_path is not None:
        java = Path(on_path)
    else:
        raise NoJava(f"{wanted}, and no java is on PATH; {remedy}")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJava(f"{wanted}, and {java} does not run ({error.__class__.__name__}); {remedy}") from None
    # Java answers on stderr: openjdk version "17.0.15" ..., and 8 calls itself "1.8.0_392".
    told = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or told is None:
        raise NoJava(f"{wanted}, and {java} does not report its version; {remedy}")
    if int(told[1]) < OLDEST_JAVA:
        raise NoJava(f"{wanted}, and {java} is Java {told[1]}; {remedy}")
    return java


class LocalSession:
    """``with LocalSession(directory) as session: session.spark``; all its files are in ``directory``."""

    def __init__(
        self,
        directory: Path,
        *,
        cores: int | str = "*",
        settings: Mapping[str, str] | None = None,
        name: str = "seamark",
        quick: bool = False,
    ) -> None:
        """``quick`` compiles with the quick compiler only: better for jobs of a minute, worse for longer ones."""
        java = find_java()
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway
            from pyspark.sql import SparkSession
        except ImportError as missing:
            raise MissingExtra("running Spark", "spark") from missing
        if SparkContext._active_spark_context is not None:
            raise SparkFailed("a Spark session is already running in this process")
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log_path = directory / "spark.log"
        log_settings = directory / "log4j2.properties"
        log_settings.write_text(_LOGGING, encoding="utf-8")
        log_uri = log_settings.resolve().as_uri()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        java_options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if quick else "-XX:+UseSerialGC"
        chosen = {
            "spark.driver.extraJavaOptions": f"{java_options} -Dlog4j2.configurationFile={log_uri}",
            "spark.local.dir": str((directory / "local").resolve()),
            "spark.sql.warehouse.dir": str((directory / "warehouse").resolve()),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **PATIENCE,
            **(settings or {}),
        }
        conf = SparkConf().setMaster(f"local[{cores}]").setAppName(name)
        for key, value in chosen.items():
            conf.set(key, value)
        environment = {
            "JAVA_HOME": str(java.resolve().parents[1]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Of the workers; what they say goes to the log anyway, and pandas and pyarrow say much.
            "PYTHONWARNINGS": "ignore",
        }
        try:
            with self.log_path.open("ab") as log, _environment(environment):
                launch: Any = launch_gateway
                gateway = launch(conf, popen_kwargs={"stdout": log, "stderr": log, "start_new_session": True})
            self._process = gateway.proc
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with _own_interrupts():
                    context = SparkContext(gateway=gateway, conf=conf)
                self.spark: SparkSession = SparkSession(context)
            _silence_accumulators(self.spark)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise SparkFailed(f"Spark did not start; {self.log_path} has details ({_first_line(error)})") from error
            raise

    def __enter__(self) -> LocalSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End jobs, the session, the JVM and its workers; may be called again, and from any thread."""
        from pyspark import SparkContext

        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(Exception):
            self.spark.stop()
        with contextlib.suppress(Exception):
            if SparkContext._gateway is not None:
                SparkContext._gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None
        self.kill(_END_S)

    def kill(self, patience: float = 0.0) -> None:
        """End the JVM's processes, after ``patience`` seconds by force; who waits for it gets an error."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep this process's way of being interrupted. Spark's cancels jobs first, and fails where there is no session."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _silence_accumulators(spark: SparkSession) -> None:
    """Spark's server in this process would print a traceback when a killed JVM leaves it."""
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: _log.debug("Spark's JVM left the accumulators", exc_info=True)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set for the JVM that is started within; this process keeps its own."""
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else error.__class__.__name__

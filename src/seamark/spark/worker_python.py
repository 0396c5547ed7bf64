"""The Python that a local session's workers run, started quickly enough for Spark to wait for it.

The process of a streaming source has ten seconds to connect back to the JVM, a limit that no setting changes; a busy
machine makes it fail with "Python worker failed to connect back". Most of that time goes into importing pyspark from a
zip file, which Spark puts in front of the path and which is compiled anew in every process. Here the workers are on the
driver's machine and have pyspark installed, so they leave the zip out, which makes their start three times as fast.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

# For what comes after connecting, a setting exists: how long each side waits for the other's secret.
PATIENCE = {"spark.python.authenticate.socketTimeout": "120s"}

_LAUNCHER = """\
#!/bin/sh
set -f
kept=
IFS=:
for each in $PYTHONPATH; do
    case $each in
        */pyspark.zip | */py4j-*-src.zip) ;;
        *) kept=$kept${kept:+:}$each ;;
    esac
done
PYTHONPATH=$kept exec PYTHON "$@"
"""


def worker_settings(directory: Path) -> dict[str, str]:
    """Settings of a session whose workers run this process's Python without Spark's zip; its files in ``directory``."""
    launcher = directory.resolve() / "worker-python"
    launcher.write_text(_LAUNCHER.replace("PYTHON ", f"{shlex.quote(sys.executable)} "), encoding="utf-8")
    launcher.chmod(0o755)
    # A directory may be on a file system from which nothing can be run.
    chosen = str(launcher) if os.access(launcher, os.X_OK) else sys.executable
    return {"spark.pyspark.python": chosen, **PATIENCE}

"""The Python that Spark's workers run, started without the zip file of pyspark where it is installed as well.

Spark puts a zip of pyspark in front of every worker's path, and what is imported from a zip is compiled anew in every
process: that is more than half of what a worker, or the process of a streaming source, needs to start. The latter has
ten seconds to connect back to the JVM, a limit that no setting changes; a busy machine makes it fail with "Python
worker failed to connect back". Where workers run on the driver's machine, with the driver's Python, and the zip is the
one of the installed pyspark, a script leaves it out, and the same modules come from compiled files.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

# For what comes after connecting, a setting exists: how long each side waits for the other's secret.
PATIENCE = {"spark.python.authenticate.socketTimeout": "120s"}

LAUNCHER = Path(__file__).with_name("worker_python.sh")


def choose_python(context: SparkContext, chosen: str) -> None:
    """Have the workers of what is made from now on run ``chosen``, as quickly started as can be."""
    lib = _installed_lib()
    master = str(context.master)
    is_here = master == "local" or master.startswith("local[")
    # Not executable: a zip of Seamark, or a file system from which nothing can be run.
    if not is_here or lib is None or not _is_ours(chosen) or not os.access(LAUNCHER, os.X_OK):
        context.pythonExec = chosen
        return
    context.environment |= {"SEAMARK_WORKER_PYTHON": sys.executable, "SEAMARK_PYSPARK_LIB": str(lib)}
    context.pythonExec = str(LAUNCHER)


def _is_ours(chosen: str) -> bool:
    """Whether a name of Python is the one of this process, in the same environment."""
    path = shutil.which(chosen)
    if path is None:
        return False
    # Environments share one interpreter: what tells them apart is the directory of the link to it.
    is_same_place = Path(path).absolute().parent == Path(sys.executable).absolute().parent
    return is_same_place and Path(path).samefile(sys.executable)


def _installed_lib() -> Path | None:
    """Where the installed pyspark has its zips; None if a new Python would not find it, and py4j, by itself."""
    import py4j
    import pyspark

    places = {os.path.realpath(place) for place in _site_directories()}
    homes = [Path(module.__file__ or "").parent for module in (pyspark, py4j)]
    if any(os.path.realpath(home.parent) not in places for home in homes):
        return None
    return homes[0] / "python" / "lib"


def _site_directories() -> list[str]:
    return [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]

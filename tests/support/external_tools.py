"""Which Java, javac and Maven the tests use, where their results are cached, and what is said when one is missing.

Everything that needs a program from outside Python asks here. A missing or too old program raises ``Unavailable`` with
one sentence that names the package to install; tests/conftest.py turns it into a skip, or into a failure where the
environment promises the tools (``CI`` or ``SEAMARK_REQUIRE_KAFKA``). Outside pytest (benchmarks) it is an exception.

The cache lies outside the clone, so that a fresh clone and ``git clean`` do not download anything again.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

# The oldest Java that Kafka 4's broker runs on.
OLDEST_JAVA = 17


class Unavailable(Exception):
    """A program or download that the tests need is not to be had on this machine."""


def java() -> Path:
    """The ``java`` to run: that of JAVA_HOME, else the first on PATH; at least Java 17."""
    return _checked_java(os.environ.get("JAVA_HOME"), os.environ.get("PATH"))


def javac() -> Path:
    """The compiler that belongs to ``java()``; a runtime without a compiler is not enough."""
    runtime = java()
    beside = runtime.resolve().with_name("javac")
    found = str(beside) if beside.exists() else shutil.which("javac")
    if found is None:
        raise Unavailable(
            "compiling the Java test programs needs javac; install a JDK (Debian: openjdk-17-jdk-headless)"
        )
    return Path(found)


def maven() -> Path:
    found = shutil.which("mvn")
    if found is None:
        raise Unavailable("fetching Apache Kafka's jars needs Maven, and no mvn is on PATH; install it (Debian: maven)")
    return Path(found)


@lru_cache(maxsize=8)
def _checked_java(java_home: str | None, path: str | None) -> Path:
    wanted = f"Apache Kafka needs Java {OLDEST_JAVA} or newer"
    remedy = f"install it (Debian: openjdk-{OLDEST_JAVA}-jre-headless)"
    if java_home and os.access(Path(java_home) / "bin" / "java", os.X_OK):
        found = Path(java_home) / "bin" / "java"
    elif on_path := shutil.which("java", path=path):
        found = Path(on_path)
    else:
        raise Unavailable(f"{wanted}, and no java is on PATH; {remedy}")
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{wanted}, and {found} does not run ({error}); {remedy}") from error
    # Java answers on stderr: openjdk version "17.0.15" ..., and 8 calls itself "1.8.0_392".
    told = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or told is None:
        raise Unavailable(f"{wanted}, and {found} does not say its version; {remedy}")
    if int(told[1]) < OLDEST_JAVA:
        raise Unavailable(f"{wanted}, and {found} is Java {told[1]}; {remedy}")
    return found


def cache_directory() -> Path:
    """SEAMARK_TEST_CACHE, else seamark-tests in the user's cache directory; made when it is missing."""
    chosen = os.environ.get("SEAMARK_TEST_CACHE")
    if chosen:
        directory = Path(chosen)
    else:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seamark-tests"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def cached_directory(kind: str, name: str, *, is_whole: Callable[[Path], bool], build: Callable[[Path], None]) -> Path:
    """The directory ``kind/name`` of the cache, built on first use.

    ``build`` fills a temporary directory that is renamed into place when it is complete: a reader sees everything or
    nothing, and a killed build leaves no half entry under the final name. One build of a kind runs at a time, because
    two Mavens writing one local repository spoil it. A damaged entry (``is_whole`` is false) is built anew.
    """
    place = cache_directory() / kind
    place.mkdir(exist_ok=True)
    final = place / name
    if final.is_dir() and is_whole(final):
        return final
    with _only_one(place / ".lock"):
        if final.is_dir():
            if is_whole(final):
                return final
            shutil.rmtree(final)
        # Whoever holds the lock is the only builder: other temporary directories were left by builds that were killed.
        for stale in place.glob(".*-*"):
            shutil.rmtree(stale, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=place))
        try:
            build(fresh)
            fresh.rename(final)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return final


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

"""Finds the Chromium that the browser tests drive, and installs Debian's where root may and it is missing.

Playwright's own browser download is not used: the distribution's browser is updated with the machine and verified by
its package keys. Installing is for machines that belong to the run (a container, CI): root only, with apt-get, within a
bounded time, one at a time. Everybody else gets one sentence that names the package.

    python -m tools.install_chromium        prints the program's path
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGE = "chromium"
# Without any font a page is laid out in boxes of no width.
_PACKAGES = (PACKAGE, "fonts-liberation")
_PROGRAMS = ("chromium", "chromium-browser")
# Below the time limit of a test, because the first one that needs the browser waits for it.
INSTALL_SECONDS = 240.0


class ChromiumMissing(Exception):
    """There is no Chromium, and it could not be installed; the text is one sentence."""


def chromium(*, search: str | None = None, is_root: bool | None = None, seconds: float = INSTALL_SECONDS) -> Path:
    """The program; installed first where that is allowed. ``search`` stands for PATH, as a test may want it."""
    if found := _program(search):
        return found
    if not (os.geteuid() == 0 if is_root is None else is_root):
        raise ChromiumMissing(f"needs Debian's package {PACKAGE}: apt-get install {PACKAGE}")
    apt = shutil.which("apt-get", path=search)
    if apt is None:
        raise ChromiumMissing(f"needs Chromium, and this system has no apt-get to install its package {PACKAGE} with")
    with (Path(tempfile.gettempdir()) / f"seamark-install-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have installed it in the meantime.
        if found := _program(search):
            return found
        told = _install(apt, time.monotonic() + seconds)
    if found := _program(search):
        return found
    raise ChromiumMissing(f"needs Debian's package {PACKAGE}, which could not be installed: {told}")


def _program(search: str | None) -> Path | None:
    for name in _PROGRAMS:
        if found := shutil.which(name, path=search):
            return Path(found)
    return None


def _install(apt: str, deadline: float) -> str:
    """Install, with new package lists if the old ones will not do; gives the last line that was said."""
    install = (apt, "install", "--yes", "--quiet", "--no-install-recommends", *_PACKAGES)
    told = "apt-get was not run"
    for command in (install, (apt, "update", "--quiet"), install):
        left = deadline - time.monotonic()
        if left <= 0:
            return "apt-get took too long"
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        try:
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=left, check=False,
                env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "apt-get took too long"
        except OSError as error:
            return f"apt-get does not run ({error})"
        said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
        told = said[-1] if said else f"apt-get ended with {ran.returncode}"
        if command is install and ran.returncode == 0:
            return "apt-get installed it, and it is not on PATH"
    return told


def main() -> None:
    try:
        print(chromium())
    except ChromiumMissing as missing:
        sys.exit(f"seamark: {missing}")


if __name__ == "__main__":
    main()

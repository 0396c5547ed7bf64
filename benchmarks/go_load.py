"""The Go load program, built once per machine and source into the test cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.external_tools import Unavailable, cached_directory

SOURCE = Path(__file__).parent / "yardsticks" / "commit_load"


def commit_load_program() -> Path:
    """The executable: ``BOOTSTRAP WORKERS SECONDS PARTITIONS`` -> one JSON line."""
    text = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    name = f"commit_load-{hashlib.sha256(text).hexdigest()[:12]}"

    def build(directory: Path) -> None:
        compiler = shutil.which("go")
        if compiler is None:
            raise Unavailable("the load program is written in Go, and no go is on PATH; install it (Debian: golang-go)")
        command = [compiler, "build", "-o", str(directory / "commit_load"), "."]
        run = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=270, check=False)
        if run.returncode != 0:
            raise Unavailable(f"go could not build the load program: {run.stderr.strip()[-400:]}")

    directory = cached_directory(
        "go", name, is_whole=lambda directory: (directory / "commit_load").is_file(), build=build
    )
    return directory / "commit_load"

"""Commands as a person sees them in a terminal of a given width: in this process, or behind a real pseudo terminal."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest


class Seen(NamedTuple):
    """``text`` is what stood on the screen, standard output and errors in the order they came."""

    code: int
    text: str


class Screen(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def seen_by_a_person(words: Sequence[str], columns: int, monkeypatch: pytest.MonkeyPatch, *, typed: str = "") -> Seen:
    """Run ``seamark`` in this process; it takes the stream for a terminal of so many columns."""
    from seamark.cli.main import main

    screen = Screen()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "argv", ["seamark", *words])
        patch.setattr(sys, "stdin", io.StringIO(typed))
        patch.setattr(sys, "stdout", screen)
        patch.setattr(sys, "stderr", screen)
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return Seen(code, screen.getvalue())


class PseudoTerminal:
    """A process whose screen is a pseudo terminal of so many columns; ``with`` ends it if it has not ended."""

    def __init__(self, words: Sequence[str | Path], columns: int, *, cwd: Path, rows: int = 40) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        without = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=without | {"TERM": "xterm"},
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.text = ""

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def pieces(self) -> Iterator[str]:
        """What appears on the screen, as it does, until the process has ended."""
        while True:
            # A terminal whose last writer is gone answers with an error instead of an end.
            with contextlib.suppress(OSError):
                if piece := os.read(self._master, 65536):
                    text = piece.decode(errors="replace").replace("\r\n", "\n")
                    self.text += text
                    yield text
                    continue
            return

    def wait(self, timeout: float = 60) -> int:
        """Read to the end and give the exit code."""
        for _ in self.pieces():
            pass
        return self.process.wait(timeout)

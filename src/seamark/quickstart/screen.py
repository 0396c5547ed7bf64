"""What a person watches while the quickstart runs: a line per step when it is done, and a bar while it is under way.

On a terminal the bar moves; elsewhere there are lines only, one when a step begins and one when it has ended. All of it
goes to standard error: standard output is for the result. A line is wrapped behind its title, so that it stays readable
at 80 columns.
"""

from __future__ import annotations

import contextlib
import sys
import textwrap
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_TITLE = 10


class Step:
    """One step under way; ``result`` is what its last line says."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.result = ""
        self._progress = progress

    def reach(self, count: int) -> None:
        if self._progress is not None:
            for task in self._progress.task_ids:
                self._progress.update(task, completed=count)

    def say(self, doing: str) -> None:
        """Change the words beside the bar."""
        if self._progress is not None:
            for task in self._progress.task_ids:
                self._progress.update(task, description=doing)


class Screen(Protocol):
    def step(self, title: str, doing: str, total: int | None = None) -> contextlib.AbstractContextManager[Step]: ...

    def say(self, words: str) -> None: ...

    def left_out(self, title: str, why: str) -> None: ...


class Lines:
    """For pipes, files and dumb terminals."""

    def __init__(self, out: TextIO | None = None, width: int = 100) -> None:
        self._out = out or sys.stderr
        self._width = width

    @contextlib.contextmanager
    def step(self, title: str, doing: str, total: int | None = None) -> Iterator[Step]:
        self._write(f"{title:<{_TITLE}}{doing} ..." if total is None else f"{title:<{_TITLE}}{doing} ({total}) ...")
        started = time.monotonic()
        step = Step()
        yield step
        self._write(f"{title:<{_TITLE}}{_with_seconds(step.result, time.monotonic() - started)}")

    def say(self, words: str) -> None:
        self._write(words)

    def left_out(self, title: str, why: str) -> None:
        self._write(f"{title:<{_TITLE}}skipped: {why}")

    def _write(self, line: str) -> None:
        print(_wrapped(line, self._width), file=self._out, flush=True)


class Bars:
    """For a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextlib.contextmanager
    def step(self, title: str, doing: str, total: int | None = None) -> Iterator[Step]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

        columns: list[ProgressColumn] = [TextColumn(f"  {title:<{_TITLE}}{{task.description}}"), BarColumn(16)]
        if total is not None:
            columns.append(MofNCompleteColumn())
        columns.append(TimeElapsedColumn())
        started = time.monotonic()
        with Progress(*columns, console=self._console, transient=True) as progress:
            progress.add_task(doing, total=total)
            step = Step(progress)
            yield step
        self._line("✓", title, _with_seconds(step.result, time.monotonic() - started), "green")

    def say(self, words: str) -> None:
        self._console.print(_wrapped(words, self._console.width), markup=False, highlight=False)

    def left_out(self, title: str, why: str) -> None:
        self._line("-", title, f"skipped: {why}", "yellow")

    def _line(self, sign: str, title: str, words: str, colour: str) -> None:
        from rich.text import Text

        text = _wrapped(f"{title:<{_TITLE}}{words}", self._console.width - 2).replace("\n", "\n  ")
        self._console.print(Text.assemble((sign, colour), " ", (text[:_TITLE], "bold"), text[_TITLE:]))


def screen_for(out: TextIO) -> Screen:
    """Bars where they can be drawn."""
    if not out.isatty():
        return Lines(out)
    from rich.console import Console

    console = Console(file=out)
    return Bars(console) if console.is_terminal and not console.is_dumb_terminal else Lines(out, console.width)


class Quiet:
    """Keeps what the parts log off the screen: it goes to a file, as a person would configure it."""

    def __init__(self, path: str) -> None:
        import logging

        from seamark.readable_log import ReadableFormatter

        self._handler = logging.FileHandler(path, encoding="utf-8", delay=True)
        self._handler.setFormatter(ReadableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._loggers = [logging.getLogger(name) for name in ("seamark", "py4j", "pyspark")]

    def __enter__(self) -> None:
        for logger in self._loggers:
            logger.addHandler(self._handler)
            logger.propagate = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for logger in self._loggers:
            logger.removeHandler(self._handler)
            logger.propagate = True
        self._handler.close()


def _with_seconds(words: str, seconds: float) -> str:
    return f"{words} ({seconds:.1f}s)"


def _wrapped(text: str, width: int) -> str:
    """Lines of at most ``width``, those after the first set in behind the title."""
    return "\n".join(
        textwrap.fill(
            line, max(width, 40), subsequent_indent=" " * _TITLE, break_long_words=False, break_on_hyphens=False
        )
        for line in text.splitlines()
    )

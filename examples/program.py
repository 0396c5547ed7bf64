"""What the example programs share: arguments, an end, and errors as sentences. Not about Kafka; skip it.

Every program ends by itself, after ``--records`` records or when nothing has come for ``--idle`` seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from seamark.errors import SeamarkError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence instead of the whole usage."""
        print(f"{self.prog}: {message} (--help shows the arguments)", file=sys.stderr)
        sys.exit(2)


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(text)


def parser(description: str, group: str, topics: list[str]) -> argparse.ArgumentParser:
    made = _Parser(description=description.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--bootstrap", default="localhost:9092", help="HOST:PORT of a broker")
    made.add_argument("--group", default=group, help="the consumer group")
    made.add_argument("--topic", action="append", dest="topics", metavar="TOPIC", help=f"default: {' '.join(topics)}")
    made.add_argument("--records", type=_count, default=None, help="end after so many records")
    made.add_argument("--idle", type=_positive, default=10.0, help="end when nothing came for so many seconds")
    made.set_defaults(default_topics=topics)
    return made


class End:
    """Says when a program has seen enough; one object may be shared by threads."""

    def __init__(self, records: int | None, idle_s: float) -> None:
        self._wanted = records
        self._idle_s = idle_s
        self._last = time.monotonic()
        self.seen = 0

    def count(self, records: int) -> None:
        if records:
            self.seen += records
            self._last = time.monotonic()

    @property
    def is_here(self) -> bool:
        enough = self._wanted is not None and self.seen >= self._wanted
        return enough or time.monotonic() - self._last > self._idle_s


def run(made: argparse.ArgumentParser, program: Callable[[argparse.Namespace, End], None]) -> int:
    """Parse the arguments and run the program; the answer is the exit code."""
    arguments = made.parse_args()
    arguments.topics = arguments.topics or arguments.default_topics
    try:
        program(arguments, End(arguments.records, arguments.idle))
    except SeamarkError as error:
        print(f"{made.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0

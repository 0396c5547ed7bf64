"""Prometheus' text format, version 0.0.4, for all parts: families of samples that any scraper reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from seamark.readable_text import readable_lines

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family:
    """All samples of one name. ``kind`` is counter, gauge or histogram.

    >>> family = Family("seamark_requests_total", "counter", "Requests answered.")
    >>> family.add(3, api="Fetch")
    >>> print(family.text(), end="")
    # HELP seamark_requests_total Requests answered.
    # TYPE seamark_requests_total counter
    seamark_requests_total{api="Fetch"} 3
    """

    __slots__ = ("kind", "lines", "meaning", "name")

    def __init__(self, name: str, kind: str, meaning: str) -> None:
        self.name = name
        self.kind = kind
        self.meaning = meaning
        self.lines: list[str] = []

    def add(self, value: float, **labels: object) -> None:
        self._line("", value, labels)

    def add_all(self, samples: Iterable[tuple[Mapping[str, object], float]]) -> Self:
        """Add samples given as labels and value."""
        for labels, value in samples:
            self._line("", value, labels)
        return self

    def add_histogram(self, bounds: Iterable[float], counts: Iterable[int], total: float, **labels: object) -> None:
        """Add one histogram; ``counts`` are per bucket, with one more for what is above the last bound."""
        running = 0
        for bound, count in zip((*bounds, float("inf")), counts, strict=True):
            running += count
            self._line("_bucket", running, {**labels, "le": "+Inf" if bound == float("inf") else repr(bound)})
        self._line("_sum", total, labels)
        self._line("_count", running, labels)

    def text(self) -> str:
        head = f"# HELP {self.name} {_escaped(self.meaning)}\n# TYPE {self.name} {self.kind}\n"
        return head + "".join(self.lines)

    def _line(self, ending: str, value: float, labels: Mapping[str, object]) -> None:
        shown = ",".join(f'{name}="{escaped_label(value)}"' for name, value in labels.items())
        self.lines.append(f"{self.name}{ending}{{{shown}}} {value}\n" if shown else f"{self.name}{ending} {value}\n")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def escaped_label(value: object) -> str:
    """A label's value; beside the format's own escapes, what must not reach a terminal that shows the page."""
    return _escaped(readable_lines(str(value))).replace('"', '\\"')

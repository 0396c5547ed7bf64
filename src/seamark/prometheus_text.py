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


def exposition(
    metrics: Mapping[str, float], kafka_names: Mapping[str, tuple[str, str]], labels: Mapping[str, str | None]
) -> str:
    r"""A client's metrics, those of one name together; ``labels`` that have a text are put on every sample.

    A metric's key is its name, or its name with labels as they are written in this format; ``labels`` tell one client
    of a process from another. Names ending in ``_total`` are counters, all others gauges. The help text of a metric
    that Kafka's clients have too is Kafka's name for it.

    >>> print(exposition({"seamark_x_total": 3.0, 'seamark_lag{topic="t"}': 5}, {}, {"client_id": 'a"b'}), end="")
    # HELP seamark_x_total Seamark's own.
    # TYPE seamark_x_total counter
    seamark_x_total{client_id="a\"b"} 3.0
    # HELP seamark_lag Seamark's own.
    # TYPE seamark_lag gauge
    seamark_lag{client_id="a\"b",topic="t"} 5
    """
    families: dict[str, Family] = {}
    common = [f'{label}="{escaped_label(text)}"' for label, text in labels.items() if text]
    for key, value in metrics.items():
        name, braces, own = key.partition("{")
        family = families.get(name)
        if family is None:
            group, kafkas = kafka_names.get(name, ("", ""))
            meaning = f"Kafka's {kafkas} of {group}." if kafkas else "Seamark's own."
            family = families[name] = Family(name, "counter" if name.endswith("_total") else "gauge", meaning)
        shown = ",".join([*common, own[:-1]] if braces else common)
        family.lines.append(f"{name}{{{shown}}} {value}\n" if shown else f"{name} {value}\n")
    return "".join(family.text() for family in families.values())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def escaped_label(value: object) -> str:
    """A label's value; beside the format's own escapes, what must not reach a terminal that shows the page."""
    return _escaped(readable_lines(str(value))).replace('"', '\\"')

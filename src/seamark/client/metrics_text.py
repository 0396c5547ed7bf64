r"""A client's metrics in Prometheus' text format, version 0.0.4, for whatever HTTP server the application has.

A metric's key is its name, or its name with labels as they are written in that format; ``labels`` tell one client of a
process from another. Names ending in ``_total`` are counters, all others gauges. The help text of
a metric that Kafka's clients have too is Kafka's name for it.

    >>> print(exposition({"seamark_x_total": 3.0, 'seamark_lag{topic="t"}': 5}, {}, {"client_id": 'a"b'}), end="")
    # HELP seamark_x_total Seamark's own.
    # TYPE seamark_x_total counter
    seamark_x_total{client_id="a\"b"} 3.0
    # HELP seamark_lag Seamark's own.
    # TYPE seamark_lag gauge
    seamark_lag{client_id="a\"b",topic="t"} 5
"""

from __future__ import annotations

from collections.abc import Mapping

from seamark.prometheus_text import escaped_label


def exposition(
    metrics: Mapping[str, float], kafka_names: Mapping[str, tuple[str, str]], labels: Mapping[str, str | None]
) -> str:
    """All samples, those of one name together; ``labels`` that have a text are put on every one of them."""
    families: dict[str, list[str]] = {}
    for key, value in metrics.items():
        name, braces, own = key.partition("{")
        written = [f'{label}="{escaped_label(text)}"' for label, text in labels.items() if text]
        shown = ",".join([*written, own[:-1]] if braces else written)
        families.setdefault(name, []).append(f"{name}{{{shown}}} {value}\n" if shown else f"{name} {value}\n")
    lines: list[str] = []
    for name, samples in families.items():
        group, kafkas = kafka_names.get(name, ("", ""))
        meaning = f"Kafka's {kafkas} of {group}." if kafkas else "Seamark's own."
        lines.append(f"# HELP {name} {meaning}\n# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n")
        lines += samples
    return "".join(lines)

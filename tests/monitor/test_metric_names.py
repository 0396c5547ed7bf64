"""One metric name means one thing, whichever part of Seamark serves it: the same labels, type and help everywhere."""

import re
import urllib.request
from pathlib import Path

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, Producer, TopicPartition
from seamark.monitor.exposition import metrics_text as exporter_text
from seamark.monitor.poller import Poller
from seamark.parallel import ParallelConsumer
from seamark.parallel.observe.metrics import metrics_text as parallel_text
from seamark.spark.read.offset_document import SourceOffsets
from seamark.spark.watch.progress import LagMetrics, SourceProgress
from tests.support.waiting import eventually

SOURCE = Path(__file__).parents[2] / "src" / "seamark"
SAMPLE = re.compile(r"^([a-z_:]+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$")
LABEL = re.compile(r'([a-z_]+)="(?:\\.|[^"\\])*"')


@pytest.fixture(scope="module")
def expositions():
    """What each part serves while all are at work on one topic."""
    settings = {"group.initial.rebalance.delay.ms": 0, "seamark.metrics.listen": "127.0.0.1:0"}
    with Broker(settings=settings) as broker:
        options = {"bootstrap_servers": broker.bootstrap}
        with Producer(**options) as producer:
            for _ in range(5):
                producer.send("t", b"x")
            producer.flush(30)
            of_producer = producer.metrics_text()
        with Consumer(**options, group_id="one", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            eventually(lambda: consumer.poll(0.5, max_records=1), "a record")
            consumer.commit({TopicPartition("t", 0): 1})
            of_consumer = consumer.metrics_text()
        parallel = ParallelConsumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "two", "auto.offset.reset": "earliest"},
            ["t"],
            lambda record: None,
        )
        of_parallel = []

        def look():
            of_parallel[:] = [parallel_text(parallel.status())]
            return "seamark_parallel_position{" in of_parallel[0]

        with parallel:
            eventually(look, "a partition of the parallel consumer", scene=lambda: str(of_parallel))
        with Admin(**options) as admin:
            poller = Poller(admin)
            poller.look_once()
            of_exporter = exporter_text(poller)
        with urllib.request.urlopen(broker.metrics_url, timeout=30) as answer:
            of_broker = answer.read().decode()
    lag = LagMetrics()
    ends = SourceOffsets({}, group="g")
    lag.progressed("id", "query", 3, [SourceProgress(ends, 1, 1, 5, {"t": {"0": 1}}, None)])
    return {
        "broker": of_broker,
        "client/consumer_facade": of_consumer,
        "client/producer_facade": of_producer,
        "monitor": of_exporter,
        "parallel": of_parallel[0],
        "spark": lag.text(),
    }


def families(text):
    """By name: type and help, and the label names of each kind of sample."""
    heads, labels = {}, {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, what, name, told = line.split(" ", 3)
            heads.setdefault(name, {})[what] = told
        elif line:
            plain, labelled = SAMPLE.match(line).groups()
            name = plain if plain in heads else line.partition("{")[0].partition(" ")[0]
            found = frozenset(LABEL.findall(labelled or "")) - {"le"}
            labels.setdefault(name, set()).add(found)
    return heads, labels


def test_a_name_has_one_type_one_help_and_one_set_of_labels(expositions):
    seen, clashes = {}, []
    for part, text in expositions.items():
        heads, labels = families(text)
        assert set(labels) <= set(heads), f"{part} serves samples without a type"
        for name, sets in labels.items():
            for each in sets:
                meaning = heads[name]["TYPE"], heads[name]["HELP"], each
                first_part, first = seen.setdefault(name, (part, meaning))
                if first != meaning:
                    clashes.append(f"{name}: {first_part} has {first}, {part} has {meaning}")
    assert not clashes
    assert len(seen) > 100


def test_every_part_that_makes_metrics_is_looked_at(expositions):
    makers = {
        str(path.relative_to(SOURCE).parent)
        for path in SOURCE.rglob("*.py")
        if path.name not in ("prometheus_text.py", "metrics_text.py")
        and re.search(r"^(?!.*def ).*\b(Family|exposition)\(", path.read_text(), re.MULTILINE)
    }
    assert makers == {
        "broker/metrics",
        "client/consumer",
        "client/producer",
        "monitor",
        "parallel/observe",
        "spark/watch",
    }
    assert all(text.strip() for text in expositions.values())

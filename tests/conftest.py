"""What every test shares: Apache Kafka as fixtures, the rule for missing tools, and Hypothesis' profiles.

Loaded for each run, so it imports nothing heavy: the fixtures that start Kafka import what they need.

A test that meets ``Unavailable`` (no Java, no Maven, no jars) is skipped with its sentence as the reason. Where the
environment promises the tools (``CI`` or ``SEAMARK_REQUIRE_KAFKA`` is set and not false), it fails instead: a run that
silently lost its comparison with the real thing would look green.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.support import kafka_like as kafka_like_brokers
from tests.support.external_tools import Unavailable, java
from tests.support.kafka_like import KafkaLike
from tests.support.maven import NEWEST_KAFKA, OLDER_KAFKA

if TYPE_CHECKING:
    from seamark.client import Admin
    from tests.support.apache_kafka import ApacheKafka
    from tests.support.zookeeper import Zookeeper

    StartKafka = Callable[..., ApacheKafka]


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "false", "no")


# No deadline: on shared cores the slowest example says nothing about the code. In CI the same commit draws the same
# examples, so that a red run can be repeated; elsewhere each run explores further.
_repeatable: dict[str, Any] = {"derandomize": True, "database": None} if _is_set("CI") else {"derandomize": False}
hypothesis.settings.register_profile(
    "default",
    hypothesis.settings.get_profile("default"),
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    **_repeatable,
)
hypothesis.settings.register_profile("soak", hypothesis.settings.get_profile("default"), max_examples=2000)
# Hypothesis would choose its own profile in CI; --hypothesis-profile=soak is applied after this line and wins.
hypothesis.settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a broker, so that ``-m "not kafka"`` is complete whether or not a test wrote the marker."""
    for item in items:
        if any(name.startswith("apache_kafka") for name in getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
        if any(name.startswith("zookeeper") for name in getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.java)


# Folders by how long their longest files take: what is long begins early, or one worker waits for the other at the end.
_LONG_FIRST = ("spark", "conformance", "client", "quickstart", "browser")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers a file stays on one of them, for the sake of what it starts; all of Spark does.

    A scheduler rather than the mark ``xdist_group``: a mark set while collecting comes too late for xdist to see, and
    it would be part of each test's name in the reports.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    def folder(unit: str) -> str:
        return unit.partition("/")[2].partition("/")[0]

    class WholeFiles(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return "tests/spark" if folder(file) == "spark" else file

        def _assign_work_unit(self, node: Any) -> None:
            order = {name: place for place, name in enumerate(_LONG_FIRST)}
            longest = min(self.workqueue, key=lambda unit: order.get(folder(unit), len(order)))
            self.workqueue.move_to_end(longest, last=False)
            super()._assign_work_unit(node)

    return WholeFiles(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        # Asked before the body: inside a Hypothesis test the exception would be taken for a counterexample.
        if item.get_closest_marker("kafka") or item.get_closest_marker("java"):
            java()
        return (yield)
    except Unavailable as missing:
        raise _skip_or_failure(missing) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Unavailable as missing:
        raise _skip_or_failure(missing) from None


def _skip_or_failure(missing: Unavailable) -> BaseException:
    for promise in ("CI", "SEAMARK_REQUIRE_KAFKA"):
        if _is_set(promise):
            return pytest.fail.Exception(f"{missing} ({promise} is set: this must not be skipped)", pytrace=False)
    return pytest.skip.Exception(str(missing))


# The property under which a test reports that it began anew, and why.
TOLD_AGAIN = "told_again"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show which tests began anew: what is forgiven must not go unseen."""
    told = [
        f"{report.nodeid}: {reason}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, reason in report.user_properties
        if name == TOLD_AGAIN
    ]
    if told:
        terminalreporter.section(f"{len(told)} tests were told again because a client of others hung")
        for line in told:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def apache_kafka_with() -> Iterator[StartKafka]:
    """Brokers with special settings: ``apache_kafka_with({"group.coordinator.append.linger.ms": 0})``.

    One broker per version and settings serves the whole run. A test that stops or kills its broker starts its own
    ``ApacheKafka`` instead.
    """
    from tests.support.apache_kafka import ApacheKafka

    started: dict[tuple[str, tuple[tuple[str, str], ...]], ApacheKafka] = {}
    with ExitStack() as brokers:

        def start(settings: Mapping[str, object] | None = None, version: str = NEWEST_KAFKA) -> ApacheKafka:
            wanted = (version, tuple(sorted((key, repr(value)) for key, value in (settings or {}).items())))
            if wanted not in started:
                started[wanted] = brokers.enter_context(ApacheKafka(version, settings))
            broker = started[wanted]
            assert broker.is_running, f"the shared Apache Kafka {version} was ended by an earlier test"
            return broker

        yield start


@pytest.fixture(scope="session")
def apache_kafka(apache_kafka_with: StartKafka) -> ApacheKafka:
    """The run's newest Apache Kafka with default settings and no initial rebalance delay."""
    return apache_kafka_with()


@pytest.fixture(scope="session")
def apache_kafka_39(apache_kafka_with: StartKafka) -> ApacheKafka:
    """The run's Apache Kafka 3.9: the coordinator before it was rewritten."""
    return apache_kafka_with(version=OLDER_KAFKA)


@pytest.fixture(scope="session", params=[NEWEST_KAFKA, OLDER_KAFKA])
def apache_kafka_any(request: pytest.FixtureRequest, apache_kafka_with: StartKafka) -> ApacheKafka:
    """Each of the run's brokers in turn."""
    return apache_kafka_with(version=request.param)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[Zookeeper]:
    """The run's ZooKeeper; a test that stops its server starts its own."""
    from tests.support.zookeeper import Zookeeper

    with Zookeeper() as server:
        yield server


@pytest.fixture
def zookeeper_connect(zookeeper: Zookeeper, fresh_name: Callable[[str], str]) -> str:
    """A connect string whose chroot nothing else in the run uses."""
    return f"{zookeeper.connect}/{fresh_name('root')}"


@pytest.fixture(scope="session", params=kafka_like_brokers.BROKERS)
def kafka_like(request: pytest.FixtureRequest) -> Iterator[KafkaLike]:
    """Each broker in turn."""
    yield from kafka_like_brokers.start(request.param, request)


@pytest.fixture
def admin(kafka_like: KafkaLike) -> Iterator[Admin]:
    from seamark.client import Admin

    with Admin(bootstrap_servers=kafka_like.bootstrap, default_api_timeout_ms=30_000) as made:
        yield made


_numbers = itertools.count(1)


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Names that nothing else in the run uses."""
    return lambda what: f"{what}-{os.getpid()}-{next(_numbers)}"

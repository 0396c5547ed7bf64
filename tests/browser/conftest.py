"""A dashboard over a broker with consumers, and Debian's Chromium to look at it with, installed where root may.

A test that fails leaves a screenshot beside its temporary files. SEAMARK_SCREENSHOTS=DIR keeps the pictures that tests
take on their way.
"""

import os
import re
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from seamark import Broker
from seamark.cli.show.durations import duration_text, seconds_of, time_ms_of
from seamark.client import Admin, Consumer, Offset, TopicPartition
from seamark.monitor.targets import parse_target
from seamark.wire.offsets import done_ahead
from tests.support.external_tools import Unavailable
from tests.support.produced import produce
from tools import install_chromium

TOKEN = "the-token-of-the-browser-tests"
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"\u202e\x9b\u200b\n\u2028'


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    page = item.funcargs.get("page") if report.when == "call" else None
    if page is not None and report.failed:
        path = Path(item.funcargs["tmp_path"]) / "failed.png"
        page.screenshot(path=path, full_page=True)
        report.sections.append(("screenshot", str(path)))
    return report


# For a module, not for the run: playwright keeps an event loop running in this thread, which nobody else could use.
@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    try:
        program = install_chromium.chromium()
    except install_chromium.ChromiumMissing as missing:
        raise Unavailable(str(missing)) from None
    # Root, as in a container, has no sandbox.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


class Live:
    """The cluster behind the pages; records are written as a test needs them."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = Admin(bootstrap_servers=bootstrap)

    def write(self, topic, count, partition=0):
        produce(self.bootstrap, TopicPartition(topic, partition), [b"x"] * count, int(time.time() * 1000))

    def committed(self, group):
        found = self.admin.list_group_offsets([group])[group]
        return [offset.offset for _, offset in sorted(found.items())]

    def set(self, group, topic, *offsets):
        wanted = {TopicPartition(topic, index): offset for index, offset in enumerate(offsets)}
        self.admin.alter_group_offsets(group, wanted).raise_if_failed()


@pytest.fixture(scope="module")
def live():
    """Topics with records; groups that stand, one that is blocked, one with a hostile name, one with a consumer."""
    with Broker() as broker:
        made = Live(broker.bootstrap)
        for topic, partitions in (("orders", 3), ("clicks", 1), ("watched", 1)):
            broker.create_topic(topic, partitions=partitions)
            for index in range(partitions):
                made.write(topic, 100, index)
        made.set("billing", "orders", 40, 50, 60)
        made.set("beyond", "clicks", 900)
        broker.create_topic("short", partitions=1)
        made.write("short", 100)
        made.set("losing", "short", 20)
        made.admin.delete_records({TopicPartition("short", 0): 60}).raise_if_failed()
        made.set("watcher", "watched", 100)
        made.set("parallel", "clicks", Offset(10, done_ahead.encode(10, [12, 13, 20]).text))
        made.set(HOSTILE, "clicks", 99)
        for number in range(60):
            made.set(f"many-{number:02}", "clicks", number)
        with reading("orders", bootstrap_servers=broker.bootstrap, group_id="readers", client_id="reader-one"):
            yield made
        made.admin.close()


@contextmanager
def reading(topic, **config):
    """A consumer of the topic that polls in a thread of its own meanwhile."""
    ended = threading.Event()

    def consume():
        with Consumer(**config) as consumer:
            consumer.subscribe([topic])
            while not ended.is_set():
                consumer.poll(0.2)

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def serve(live, directory, *, plans):
    from seamark.dashboard.access import Access
    from seamark.dashboard.app import Dashboard
    from seamark.dashboard.serving import Server
    from seamark.dashboard.sight import Sight
    from seamark.dashboard.wording import Wording
    from seamark.http_hosts import AllowedHosts
    from seamark.monitor.history import History

    def target(text):
        return parse_target(
            text, now_ms=int(time.time() * 1000), time_ms_of=time_ms_of, seconds_of=seconds_of, option=""
        )

    history = History(directory / "history.sqlite3")
    sight = Sight("main", Admin(bootstrap_servers=live.bootstrap), history, every=0.5)
    access = Access(TOKEN, time.monotonic)
    dashboard = Dashboard([sight], access, Wording(duration_text, target), hosts=AllowedHosts("127.0.0.1"), plans=plans)
    with Server(dashboard, "127.0.0.1:0") as server:
        sight.start()
        yield f"http://{server.address}"
    sight.close()
    history.close()


@pytest.fixture(scope="module")
def address(live, tmp_path_factory):
    """Where a dashboard that may change things is served."""
    directory = tmp_path_factory.mktemp("dashboard")
    yield from serve(live, directory, plans=directory / "plans")


@pytest.fixture(scope="module")
def read_only_address(live, tmp_path_factory):
    yield from serve(live, tmp_path_factory.mktemp("dashboard"), plans=None)


@pytest.fixture
def new_page(chromium, tmp_path):
    """Pages of browsers that share nothing; what a page complains about fails the test."""
    contexts = []
    complaints = []

    def make(**options):
        context = chromium.new_context(**options)
        # Many tests share two cores.
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
        page.on("request", lambda request: complaints.append(request.url) if _is_foreign(request.url) else None)
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


def _is_complaint(message):
    # A refused login is an answer of the test's own asking.
    return message.type == "error" and "403 (Forbidden)" not in message.text


def _is_foreign(url):
    return not re.match(r"http://127\.0\.0\.1:|data:", url)


@pytest.fixture
def page(new_page, address):
    """Logged in, on the list of groups."""
    made = new_page(viewport={"width": 1280, "height": 900})
    log_in(made, address)
    return made


def log_in(page, address, token=TOKEN):
    page.goto(f"{address}/login#{token}")
    page.wait_for_url("**/c/main/groups")
    page.get_by_role("link", name="billing", exact=True).or_(page.get_by_text("1 of 2")).first.wait_for()


@pytest.fixture
def picture(page):
    """Keep a picture of the page, if somebody wants pictures."""

    def take(name, of=page):
        if directory := os.environ.get("SEAMARK_SCREENSHOTS"):
            of.screenshot(path=Path(directory) / f"{name}.png", full_page=True)

    return take

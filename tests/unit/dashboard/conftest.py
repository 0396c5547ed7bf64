"""A dashboard over a cluster in memory, asked the way a browser asks: raw ASGI calls with a cookie jar."""

import asyncio
import re
import time
import urllib.parse
from types import SimpleNamespace

import pytest

from seamark.cli.show.durations import duration_text, seconds_of, time_ms_of
from seamark.client.admin.types import ClusterDescription, GroupDescription, GroupMember, ListedOffset
from seamark.client.cluster_view import Node, PartitionView, TopicView
from seamark.client.errors import BrokerError, ConnectionFailed, broker_error
from seamark.client.net.fanout import Results
from seamark.client.records import Offset
from seamark.dashboard.access import Access
from seamark.dashboard.app import Dashboard
from seamark.dashboard.sight import Sight
from seamark.dashboard.wording import Wording
from seamark.http_hosts import AllowedHosts
from seamark.monitor.history import History
from seamark.monitor.targets import parse_target
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

NODE = Node(1, "broker", 9092)
TOKEN = "a-token-of-the-tests"


class MemoryCluster:
    """Topics, groups and offsets as the admin client tells them; ``is_away`` makes every question fail."""

    def __init__(self):
        self.logs: dict[TopicPartition, tuple[int, int]] = {}
        self.committed: dict[str, dict[TopicPartition, Offset]] = {}
        self.members: dict[str, tuple[GroupMember, ...]] = {}
        self.is_away = False
        self.asked: list[str] = []

    def topic(self, name, partitions=1, log=(0, 100)):
        self.logs |= {TopicPartition(name, index): log for index in range(partitions)}

    def commit(self, group, **offsets):
        """``commit("g", orders_0=5)`` with the partition behind the last underscore."""
        found = self.committed.setdefault(group, {})
        for name, offset in offsets.items():
            topic, _, index = name.rpartition("_")
            found[TopicPartition(topic, int(index))] = offset if isinstance(offset, Offset) else Offset(offset)

    def _ask(self, what):
        self.asked.append(what)
        if self.is_away:
            raise ConnectionFailed("broker:9092", "cannot be reached")

    def describe_cluster(self, *, timeout=None):
        self._ask("cluster")
        return ClusterDescription("the-cluster", 1, (NODE,))

    def describe_groups(self, group_ids=None, *, timeout=None):
        self._ask("groups")
        wanted = sorted({*self.committed, *self.members}) if group_ids is None else list(group_ids)
        found = {}
        errors: dict[str, BrokerError] = {}
        for name in wanted:
            if name not in self.committed and name not in self.members:
                errors[name] = broker_error(ErrorCode.GROUP_ID_NOT_FOUND, "DescribeGroups", f"group {name!r}")
                continue
            members = self.members.get(name, ())
            state = "Stable" if members else "Empty"
            found[name] = GroupDescription(name, "classic", state, "consumer", "range", members, NODE)
        return Results(found, errors)

    def list_group_offsets(self, group_ids, *, require_stable=False, timeout=None):
        self._ask("offsets")
        found = {}
        for name in group_ids:
            only = group_ids[name] if isinstance(group_ids, dict) else None
            have = self.committed.get(name, {})
            found[name] = {each: have[each] for each in have if only is None or each in only}
        return Results(found, {})

    def list_offsets(self, specs, *, timeout=None, read_committed=False):
        self._ask("logs")
        found = {}
        for partition, spec in specs.items():
            start, end = self.logs[partition]
            offset = {"earliest": start, "latest": end}.get(spec, -1)
            found[partition] = ListedOffset(offset, -1, -1)
        return Results(found, {})

    def record_times(self, places, *, timeout=None):
        self._ask("records")
        return Results(dict.fromkeys(places, int(time.time() * 1000) - 90_000), {})

    def list_topics(self, *, include_internal=False, timeout=None):
        self._ask("topics")
        counts: dict[str, int] = {}
        for topic, _ in self.logs:
            counts[topic] = counts.get(topic, 0) + 1
        return {
            name: TopicView(
                name, bytes(15) + b"\1", False, {i: PartitionView(i, 1, 0, (1,), (1,)) for i in range(count)}
            )
            for name, count in counts.items()
        }

    def describe_topics(self, names, *, timeout=None):
        known = self.list_topics()
        return Results({name: known[name] for name in names if name in known}, {})

    def alter_group_offsets(self, group_id, new_offsets, *, look_first=True, timeout=None):
        self._ask("alter")
        self.committed.setdefault(group_id, {}).update(new_offsets)
        return Results(dict.fromkeys(new_offsets), {})

    def close(self):
        pass


class Browser:
    """Follows no redirects; ``secret`` is the form secret of the last page, ``address`` where it comes from."""

    def __init__(self, dashboard, address="here"):
        self._app = dashboard.app
        self._address = address
        self.cookies: dict[str, str] = {}
        self.secret = ""

    def get(self, address, **headers):
        return self._ask("GET", address, b"", headers)

    def post(self, address, fields=(), *, with_secret=True, **headers):
        given = [*(fields.items() if isinstance(fields, dict) else fields)]
        if with_secret:
            given.append(("secret", self.secret))
        return self._ask("POST", address, urllib.parse.urlencode(given).encode(), headers)

    def log_in(self, token=TOKEN, **headers):
        self.get("/login")
        return self.post("/login", {"token": token}, **headers)

    def _ask(self, method, address, body, headers):
        path, _, query = address.partition("?")
        sent = {"host": "here:1", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": urllib.parse.unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": (self._address, 1), "server": ("here", 1),
        }  # fmt: skip
        messages = []

        async def call():
            given = iter([{"type": "http.request", "body": body}])

            async def receive():
                for message in given:
                    return message
                await asyncio.sleep(3600)
                return None

            async def send(message):
                messages.append(message)

            await self._app(scope, receive, send)

        asyncio.run(call())
        found = [(name.decode().lower(), value.decode()) for name, value in messages[0]["headers"]]
        for name, value in found:
            if name == "set-cookie":
                cookie, _, rest = value.partition(";")
                key, _, content = cookie.partition("=")
                if "max-age=0" in rest.lower():
                    self.cookies.pop(key, None)
                else:
                    self.cookies[key] = content
        text = b"".join(message.get("body", b"") for message in messages[1:]).decode()
        if secret := re.search(r'name="secret" value="([^"]+)"', text):
            self.secret = secret[1]
        return SimpleNamespace(
            status=messages[0]["status"], headers=dict(found), text=text,
            set_cookies=[value for name, value in found if name == "set-cookie"],
        )  # fmt: skip


@pytest.fixture
def cluster():
    made = MemoryCluster()
    made.topic("orders", 3)
    made.commit("billing", orders_0=40, orders_1=100, orders_2=100)
    return made


@pytest.fixture
def history():
    made = History(None)
    yield made
    made.close()


@pytest.fixture
def sight(cluster, history):
    return Sight("main", cluster, history)


@pytest.fixture
def wording():
    return Wording(
        duration_text,
        lambda text: parse_target(text, now_ms=10**12, time_ms_of=time_ms_of, seconds_of=seconds_of, option=""),
    )


@pytest.fixture
def dashboard_of(sight, wording):
    """Make a dashboard; with ``plans`` changes are allowed."""

    def make(*more, plans=None, is_secure=False, clock=lambda: 0.0, is_behind_proxy=False):
        return Dashboard(
            [sight, *more], Access(TOKEN, clock), wording, plans=plans, is_secure=is_secure,
            hosts=AllowedHosts("here"), is_behind_proxy=is_behind_proxy,
        )  # fmt: skip

    return make


@pytest.fixture
def browser(dashboard_of, sight):
    """Logged in, on a read-only dashboard that has looked once."""
    sight.look_once()
    made = Browser(dashboard_of())
    assert made.log_in().status == 303
    return made


@pytest.fixture
def changing_browser(dashboard_of, sight, tmp_path):
    """Logged in, where changes are allowed."""
    sight.look_once()
    made = Browser(dashboard_of(plans=tmp_path / "plans"))
    assert made.log_in().status == 303
    return made

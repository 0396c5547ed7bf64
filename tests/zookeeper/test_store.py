"""The ZooKeeper store beyond its contract: nodes of others, members, chroots, secrets, and a server that goes away."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from seamark.errors import ConfigError
from seamark.stores import BadOffset, StoredOffset, ZookeeperStore
from seamark.stores.errors import StoreRefused, StoreUnavailable
from seamark.topic_partition import TopicPartition
from seamark.zookeeper import multi_read, writes
from tests.support.proxy import Proxy

T0, T1, T2 = (TopicPartition("orders", index) for index in range(3))


@pytest.fixture
def client(zookeeper, zookeeper_connect):
    """A plain client at the same chroot as the store."""
    chroot = zookeeper_connect.partition("/")[2]
    made = KazooClient(zookeeper.connect)
    made.start(20)
    made.ensure_path(f"/{chroot}")
    made.chroot = f"/{chroot}"
    yield made
    made.stop()
    made.close()


@pytest.fixture
def store(zookeeper_connect):
    with ZookeeperStore(zookeeper_connect) as made:
        yield made


# covers: G1, G3
def test_offsets_are_where_old_consumers_look_for_them(client, store):
    assert store.write("billing", {T0: StoredOffset(120, "dropped", 4)}) == {T0: None}
    assert client.get("/consumers/billing/offsets/orders/0")[0] == b"120"
    client.set("/consumers/billing/offsets/orders/0", b"121")
    assert store.read("billing") == {T0: StoredOffset(121)}


def test_a_node_that_is_no_number_is_reported_and_hides_nothing(client, store):
    store.write("g", {T0: StoredOffset(1), T2: StoredOffset(3)})
    client.create("/consumers/g/offsets/orders/1", b"twelve")
    client.create("/consumers/g/offsets/orders/abc", b"7")
    client.create("/consumers/g/offsets/empty", b"")
    client.create("/consumers/strays/offsets/orders/x", b"7", makepath=True)
    found = store.read("g")
    assert found.good == {T0: StoredOffset(1), T2: StoredOffset(3)}
    assert found[T1] == BadOffset("/consumers/g/offsets/orders/1", "twelve")
    assert found.strays == (BadOffset("/consumers/g/offsets/orders/abc", "abc"),)
    assert len(found.bad) == 2
    read = dict(store.read_many(["nobody", "strays", "g", "strays"]))
    assert read["g"].bad == found.bad
    assert [each.path for each in read["strays"].bad] == ["/consumers/strays/offsets/orders/x"]
    assert read["nobody"].bad == []
    assert store.topics("g") == ["empty", "orders"]
    assert store.read("g", ["empty"]) == {}
    assert store.write("g", {T1: StoredOffset(2)}) == {T1: None}
    assert store.read("g").good == {T0: StoredOffset(1), T1: StoredOffset(2), T2: StoredOffset(3)}


def test_members_and_owners_count_as_active(client, store):
    client.create("/consumers/members/ids/host-1", b"{}", makepath=True, ephemeral=True)
    client.create("/consumers/owners/owners/orders/0", b"host-2-0", makepath=True, ephemeral=True)
    client.create("/consumers/nameless/owners/orders/0", makepath=True)
    client.ensure_path("/consumers/idle/ids")
    store.write("idle", {T0: StoredOffset(1)})
    found = dict(store.active_members_many(["members", "owners", "idle", "nobody", "nameless"]))
    assert found.pop("nameless") == ["the owner of /consumers/nameless/owners/orders/0"]
    assert found == {"members": ["host-1"], "owners": ["host-2-0"], "idle": [], "nobody": []}
    assert store.active_members("members") == ["host-1"]


def test_a_group_without_offsets_is_not_listed_and_one_whose_last_is_gone_neither(client, store):
    client.ensure_path("/consumers/never-committed/ids")
    store.write("g", {T0: StoredOffset(1), T1: StoredOffset(2)})
    assert store.groups() == ["g"]
    store.delete("g", [T0])
    assert store.groups() == ["g"]
    store.delete("g", [T1])
    assert store.groups() == []
    assert client.exists("/consumers/g") is not None


def test_names_that_cannot_be_nodes_are_refused_alone(store):
    bad = TopicPartition("a/b", 0)
    outcomes = store.write(
        "g", {bad: StoredOffset(1), T0: StoredOffset(2), TopicPartition("orders", -1): StoredOffset(0)}
    )
    assert outcomes[T0] is None
    assert isinstance(outcomes[bad], StoreRefused)
    assert "slash" in str(outcomes[bad])
    assert isinstance(outcomes[TopicPartition("orders", -1)], StoreRefused)
    assert isinstance(store.write("a/b", {T0: StoredOffset(1)})[T0], StoreRefused)
    assert store.read("a/b") == {}
    assert store.topics("..") == []
    assert store.active_members("a/b") == []
    assert store.read("g", ["a/b"]) == {}
    assert store.read_partitions("a/b", [T0]) == {}
    assert store.read_partitions("g", [bad, T0, T1]) == {T0: StoredOffset(2)}
    assert isinstance(store.delete("g", [bad])[bad], StoreRefused)


def test_a_chroot_that_does_not_exist_holds_nothing_and_is_made_by_the_first_write(store):
    assert store.groups() == []
    assert store.read("g") == {}
    assert store.write("g", {T0: StoredOffset(1)}) == {T0: None}
    assert store.groups() == ["g"]


def test_two_writers_that_make_the_same_nodes_both_succeed(zookeeper_connect):
    wanted = {TopicPartition(f"t{index % 7}", index): StoredOffset(index) for index in range(300)}
    outcomes = []

    def work():
        with ZookeeperStore(zookeeper_connect) as store:
            outcomes.append(store.write("raced", wanted))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3
    assert all(error is None for each in outcomes for error in each.values())
    with ZookeeperStore(zookeeper_connect) as store:
        assert store.read("raced").good == wanted


def test_one_node_that_may_not_be_written_costs_no_other(zookeeper_connect, store):
    locked = TopicPartition("t", 77)
    with ZookeeperStore(zookeeper_connect, digest="keeper:secret") as keeper:
        # Made open, so that others may add to them.
        store.write("g", {TopicPartition("t", 0): StoredOffset(0)})
        assert keeper.write("g", {locked: StoredOffset(1)}) == {locked: None}
        wanted = {TopicPartition("t", index): StoredOffset(index) for index in range(300)}
        outcomes = store.write("g", wanted)
        assert {partition for partition, error in outcomes.items() if error is not None} == {locked}
        assert isinstance(outcomes[locked], StoreRefused)
        found = keeper.read("g").good
    assert found == {**wanted, locked: StoredOffset(1)}


def test_nodes_that_come_and_go_while_many_are_written_are_written_all_the_same(client, store, monkeypatch):
    wanted = {TopicPartition("t", index): StoredOffset(index) for index in range(200)}
    store.write("g", {partition: StoredOffset(0) for partition in list(wanted)[:100]})
    looked = writes.read_each

    def look_and_interfere(*arguments):
        yield from looked(*arguments)
        client.delete("/consumers/g/offsets/t/5")
        client.create("/consumers/g/offsets/t/150", b"0")

    monkeypatch.setattr(writes, "read_each", look_and_interfere)
    assert all(error is None for error in store.write("g", wanted).values())
    monkeypatch.undo()
    assert store.read("g").good == wanted


def test_a_server_that_cannot_read_many_at_once_is_read_one_by_one(store, monkeypatch):
    wanted = {TopicPartition("t", index): StoredOffset(index) for index in range(200)}
    # What servers before 3.6 answer to a request that they do not know: an error, and the end of the session.
    monkeypatch.setattr(multi_read.MultiRead, "type", 4711)
    assert all(error is None for error in store.write("g", wanted).values())
    assert store.read("g").good == wanted
    assert dict(store.read_many(["g", "nobody"]))["g"].good == wanted


def test_nodes_made_with_a_digest_are_for_that_user_only(zookeeper_connect, client):
    with ZookeeperStore(zookeeper_connect, digest="keeper:secret") as keeper:
        assert keeper.write("g", {T0: StoredOffset(1)}) == {T0: None}
        assert keeper.read("g") == {T0: StoredOffset(1)}
        assert "secret" not in f"{keeper!r} {keeper.name}"
    with pytest.raises(NoAuthError):
        client.get("/consumers/g/offsets/orders/0")
    with ZookeeperStore(zookeeper_connect) as stranger:
        with pytest.raises(StoreRefused, match="NoAuth"):
            stranger.read("g")
        assert isinstance(stranger.write("g", {T0: StoredOffset(2)})[T0], StoreRefused)


def test_a_server_that_is_not_there_is_one_sentence_in_time():
    before = time.monotonic()
    with ZookeeperStore("127.0.0.1:1/kafka", timeout=0.5) as store:
        with pytest.raises(StoreUnavailable, match=r"zookeeper 127.0.0.1:1/kafka: no connection within 0.5 s"):
            store.groups()
        outcomes = store.write("g", {T0: StoredOffset(1)})
        assert isinstance(outcomes[T0], StoreUnavailable)
        assert isinstance(store.delete("g", [T0])[T0], StoreUnavailable)
    assert time.monotonic() - before < 20


def test_a_bad_connect_string_is_refused_at_once():
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        ZookeeperStore("host:port")


def test_without_kazoo_the_extra_is_named():
    program = (
        "import sys; sys.modules['kazoo'] = None\n"
        "from seamark.stores import ZookeeperStore\n"
        "try:\n    ZookeeperStore('a:1')\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("MissingExtra keeping offsets in ZooKeeper needs optional packages")
    assert "seamark[zookeeper]" in run.stdout


def test_kazoo_is_not_loaded_before_it_is_needed():
    program = "import sys, seamark.stores, seamark.client, seamark.broker.server; print('kazoo' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.fixture
def proxy(zookeeper):
    with Proxy(zookeeper.port) as made:
        yield made


def test_a_connection_that_breaks_again_and_again_costs_time_and_nothing_else(proxy, zookeeper_connect):
    root = zookeeper_connect.partition("/")[2]
    is_over = threading.Event()

    def break_it():
        while not is_over.wait(0.15):
            proxy.cut()

    breaking = threading.Thread(target=break_it)
    with ZookeeperStore(f"{proxy.address}/{root}", timeout=30) as store:
        store.groups()
        breaking.start()
        try:
            turn = 0
            while proxy.connections_made < 5:
                turn += 1
                wanted = {TopicPartition("t", index): StoredOffset(index * 10 + turn) for index in range(700)}
                assert all(error is None for error in store.write("g", wanted).values())
                assert store.read("g").good == wanted
        finally:
            is_over.set()
            breaking.join()


def test_a_server_that_is_lost_in_the_middle_is_reported_for_whatever_is_left(proxy, zookeeper_connect):
    root = zookeeper_connect.partition("/")[2]
    wanted = {TopicPartition("t", index): StoredOffset(index) for index in range(500)}
    with ZookeeperStore(f"{proxy.address}/{root}", timeout=1) as store:
        assert all(error is None for error in store.write("g", wanted).values())
        proxy.refuse()
        proxy.cut()
        with pytest.raises(StoreUnavailable):
            store.read("g")
        outcomes = store.write("g", wanted)
        assert set(outcomes) == set(wanted)
        assert all(isinstance(error, StoreUnavailable) for error in outcomes.values())
        proxy.heal()
        _within_seconds(20, lambda: store.read("g").good == wanted)


def _within_seconds(seconds, holds):
    until = time.monotonic() + seconds
    while True:
        try:
            assert holds()
        except StoreUnavailable:
            assert time.monotonic() < until
        else:
            return

"""ZooKeeper behind TLS and SASL: offsets come out of it, and what is wrong with a setting is one sentence."""

import gc
import json
import warnings

import pytest

from seamark.errors import ConfigError
from seamark.stores import StoredOffset, ZookeeperStore
from seamark.stores.errors import StoreRefused, StoreUnavailable
from seamark.topic_partition import TopicPartition
from seamark.zookeeper.security import from_properties
from tests.support.secured_zookeeper import KEY_PASSWORD, PASSWORD, USER, SecuredZookeeper

GROUP = "old"
# Kazoo forgets to close a socket whose handshake failed, which comes up whenever it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def zookeeper_secured(tmp_path_factory):
    with SecuredZookeeper(tmp_path_factory.mktemp("certificates")) as server:
        yield server
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def security(zookeeper_secured):
    own = zookeeper_secured.client
    return {
        "tls": {
            "ca": str(zookeeper_secured.authority.certificate), "certfile": str(own.certificate),
            "keyfile": str(own.key), "keyfile_password": KEY_PASSWORD, "check_hostname": True,
        },
        "sasl": {"mechanism": "DIGEST-MD5", "username": USER, "password": PASSWORD},
    }  # fmt: skip


def properties_of(server):
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(server.authority.certificate),
        "zookeeper.ssl.keystore.location": str(server.client.both),
        "zookeeper.ssl.keystore.password": KEY_PASSWORD,
        "zookeeper.sasl.username": USER,
        "zookeeper.sasl.password": PASSWORD,
    }


def test_offsets_are_written_and_read_over_tls_by_who_signs_in(zookeeper_secured, security, fresh_name):
    offsets = {TopicPartition("t", index): StoredOffset(index) for index in range(300)}
    with ZookeeperStore(f"{zookeeper_secured.connect}/{fresh_name('root')}", **security) as store:
        assert not any(store.write(GROUP, offsets).values())
        assert store.read(GROUP).good == offsets
        assert PASSWORD not in f"{store!r} {store.name}"


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (
            {"sasl": {"mechanism": "DIGEST-MD5", "username": USER, "password": "no"}},
            StoreRefused,
            "rejected the authentication",
        ),
        ({"sasl": None}, StoreRefused, "SessionClosedRequireSasl"),
        ({"tls": None}, StoreUnavailable, r"no connection within 1 s \(.*broken"),
        ({"tls": {}}, StoreUnavailable, r"no connection within 1 s \(.*CERTIFICATE_VERIFY_FAILED"),
    ],
    ids=["wrong password", "nobody", "plain", "untrusted"],
)
def test_who_is_not_let_in_is_told_why(zookeeper_secured, security, change, kind, said):
    with (
        ZookeeperStore(f"{zookeeper_secured.connect}/kafka", timeout=1, **(security | change)) as store,
        pytest.raises(kind, match=said),
    ):
        store.groups()


def test_the_command_moves_offsets_out_of_it(
    zookeeper_secured, security, clusters, admins, run, fresh_name, tmp_path, monkeypatch
):
    topic, address = fresh_name("topic"), f"{zookeeper_secured.connect}/{fresh_name('root')}"
    clusters[0].create_topic(topic)
    with ZookeeperStore(address, **security) as store:
        assert not any(store.write(GROUP, {TopicPartition(topic, 0): StoredOffset(0)}).values())
    config, plan = tmp_path / "zookeeper.properties", str(tmp_path / "move.jsonl")
    config.write_text("".join(f"{key}={value}\n" for key, value in properties_of(zookeeper_secured).items()))
    connection = ("--zookeeper", address, "--zookeeper-config", str(config), "--bootstrap", clusters[0].bootstrap)
    ran = run("migrate", "zookeeper-to-kafka", "--all", *connection, "--plan", plan, "--apply", "--json")
    assert ran.code == 0, ran.err
    assert PASSWORD not in (tmp_path / "move.jsonl").read_text()
    assert {each.offset for each in admins[0].list_group_offsets([GROUP])[GROUP].values()} == {0}
    ran = run("migrate", "verify", plan, "--zookeeper-config", str(config), "--json")
    assert (ran.code, json.loads(ran.out or "[]")) == (0, []), ran.err
    # A plan holds no credentials: without them nobody is let in, which is said and ends.
    monkeypatch.setitem(ZookeeperStore.__init__.__kwdefaults__, "timeout", 1.0)
    ran = run("migrate", "verify", plan)
    assert ran.code != 0
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ca": "/nowhere.pem"}, r"tls\['ca'\]='/nowhere.pem': cannot be read \(No such file"),
        ({"keyfile_password": "other"}, "the password of its key is wrong"),
        ({"keyfile_password": None}, "the password of its key is wrong"),
        ({"keyfile": None}, "certfile and keyfile must be given together"),
        ({"trust": "all"}, r"tls\['trust'\].*unknown setting"),
    ],
)
def test_certificates_are_tried_before_anybody_connects(zookeeper_secured, security, change, said):
    with pytest.raises(ConfigError, match=said):
        ZookeeperStore(zookeeper_secured.connect, tls=security["tls"] | change)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"zookeeper.ssl.client.enabled": "true"}, "unknown ZooKeeper setting"),
        ({"zookeeper.ssl.client.enable": "yes"}, "must be true or false"),
        ({"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.type": "JKS"}, "only PEM is supported"),
    ],
)
def test_a_property_that_is_not_understood_is_named(properties, said):
    with pytest.raises(ConfigError, match=said):
        from_properties(properties)


def test_a_mechanism_must_be_named():
    with pytest.raises(ConfigError, match=r"sasl\['mechanism'\]"):
        ZookeeperStore("127.0.0.1:1", sasl={"username": "x"})

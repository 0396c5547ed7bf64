"""The object that tests use: made, used as a context, closed; wrong arguments are one sentence."""

import asyncio
import subprocess
import sys
import threading

import pytest

import seamark
from seamark import Broker
from seamark.errors import ClosedError, ConfigError, SeamarkError, UsageError
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker_driver import Client
from tests.support.capture import CaptureError


def test_a_broker_serves_from_construction_to_close():
    # Other brokers of the same test run have threads of the same name.
    before = set(threading.enumerate())
    broker = Broker()
    with Client(broker.bootstrap) as client:
        assert client.metadata().controller_id == 0
    broker.close()
    broker.close()
    with pytest.raises(CaptureError):
        Client(broker.bootstrap)
    with pytest.raises(ClosedError):
        broker.create_topic("late")
    assert "seamark-broker" not in [thread.name for thread in set(threading.enumerate()) - before]


def test_a_broker_is_an_async_context_too():
    async def use():
        async with Broker() as broker:
            broker.create_topic("t")
            with Client(broker.bootstrap) as client:
                return client.metadata("t").topics[0].error_code

    assert asyncio.run(use()) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"nodes": 0},
        {"nodes": 1000},
        {"listen": "localhost"},
        {"listen": "127.0.0.1:99999"},
        {"listen": "::1:0"},
        {"settings": {"num.partition": 3}},
        {"settings": {"num.partitions": "many"}},
        {"settings": {"num.partitions": 0}},
        {"settings": {"group.max.size": 0}},
        {"settings": {"advertised.listeners": "nowhere"}},
        {"durability": "maybe"},
        {"max_versions": "0.8"},
        {"max_versions": "new"},
    ],
)
def test_an_argument_that_cannot_be_is_refused_by_name(arguments):
    with pytest.raises(ConfigError) as refused:
        Broker(**arguments)
    assert len(str(refused.value)) > 20


def test_a_typo_in_a_setting_is_pointed_out():
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        Broker(settings={"num.partition": 3})


def test_settings_that_mean_nothing_here_are_taken():
    with Broker(settings={"num.network.threads": 3, "log.dirs": "/nowhere", "node.id": 5}) as broker:
        assert broker.nodes[0].id == 0


def test_an_address_in_use_is_one_sentence():
    with Broker() as broker, pytest.raises(UsageError, match="in use"):
        Broker(listen=broker.bootstrap)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_other_machines_are_let_in_only_on_request(listen):
    with pytest.raises(UsageError, match="other machines"):
        Broker(listen=listen)


def test_a_listener_on_all_addresses_tells_each_client_the_one_it_used():
    with Broker(listen="0.0.0.0:0", insecure=True) as broker:
        port = broker.bootstrap.rpartition(":")[2]
        with Client(f"127.0.0.2:{port}") as client:
            assert [(node.host, str(node.port)) for node in client.metadata().brokers] == [("127.0.0.2", port)]


def test_an_advertised_address_is_what_clients_are_told():
    with (
        Broker(settings={"advertised.listeners": "PLAINTEXT://broker.example:9000"}, nodes=2) as broker,
        Client(f"127.0.0.1:{broker._server.nodes[0].listeners[0].port}") as client,
    ):
        told = [(node.host, node.port) for node in client.metadata().brokers]
        assert told == [("broker.example", 9000), ("broker.example", 9001)]


@pytest.mark.parametrize(
    ("release", "fetch", "has_cluster"), [("1.0", (4, 6), False), ("2.4", (4, 11), False), ("3.9.1", (4, 17), True)]
)
def test_an_older_release_is_imitated_in_its_versions(release, fetch, has_cluster):
    with Broker(max_versions=release) as broker, Client(broker.bootstrap) as client:
        served = {
            api.api_key: (api.min_version, api.max_version) for api in client.ask(ApiVersionsRequest(), 0).api_keys
        }
        assert served[1] == fetch
        assert (60 in served) is has_cluster
        client.send(ApiVersionsRequest(), 0)


def test_an_ipv6_address_is_served():
    try:
        broker = Broker(listen="[::1]:0")
    except SeamarkError:
        pytest.skip("this machine has no IPv6 loopback")
    with broker:
        assert broker.bootstrap.startswith("[::1]:")
        with Client(broker.bootstrap) as client:
            assert client.metadata().brokers[0].host == "::1"


def test_a_broker_that_is_not_closed_ends_with_its_process(tmp_path):
    statement = f"""
from seamark import Broker
broker = Broker(data={str(tmp_path)!r})
broker.create_topic("kept")
broker._call(lambda: broker._server.cluster.partition("kept", 0).log)
"""
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "kept-0" / "clean-shutdown").exists()


def test_the_package_offers_the_broker_without_loading_it():
    assert seamark.Broker is Broker
    statement = (
        "import sys, seamark; assert 'asyncio' not in sys.modules; seamark.Broker; assert 'asyncio' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", statement], check=True)
    with pytest.raises(AttributeError):
        seamark.Nonsense  # noqa: B018


def test_a_running_broker_keeps_no_password_of_its_settings():
    secret = "tr0ub4dor"
    jaas = f'PlainLoginModule required username="a" password="b" user_alice="{secret}";'
    with Broker(settings={"sasl.jaas.config": jaas, "sasl.enabled.mechanisms": "PLAIN"}) as broker:
        assert secret not in repr(broker._server.settings.given)
        assert secret not in repr(vars(broker._server.security))
        assert broker._server.security.protocol == "SASL_PLAINTEXT"


@pytest.mark.parametrize("numbers", [{"partitions": 1.5}, {"partitions": "2"}, {"replication_factor": 1.5}])
def test_a_topic_with_a_fraction_of_a_partition_is_refused_in_a_sentence(numbers):
    with Broker() as broker, pytest.raises(UsageError, match="must be an integer, got"):
        broker.create_topic("b", **numbers)

"""A value under a name that nobody knows may be a misspelt password: no error, repr or log line ever has it."""

import subprocess
import sys
import traceback

import pytest

from seamark.broker.config.settings import BrokerSettings
from seamark.client.config.config import AdminConfig, ConsumerConfig, ProducerConfig
from seamark.errors import ConfigError, SeamarkError
from seamark.parallel import ParallelConsumer
from seamark.spark.read.options import ReadOptions
from seamark.spark.write.options import WriteOptions
from seamark.zookeeper.security import checked_tls, from_properties

SECRET = "do-not-show-me"
HERE = {"bootstrap.servers": "127.0.0.1:1"}
SPARK = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}

NAMES = ["my.credential", "sasl.pasword", "ssl.keystore.kee", "sasl.oauthbearer.config", "zzz"]


def _parallel(options):
    ParallelConsumer({**HERE, "group.id": "g", **options}, ["t"], print)


DOORS = {
    "admin": lambda name: AdminConfig.from_options({**HERE, name: SECRET}),
    "consumer": lambda name: ConsumerConfig.from_options({**HERE, name: SECRET}),
    "producer": lambda name: ProducerConfig.from_options({**HERE, name: SECRET}),
    "keyword": lambda name: AdminConfig.from_options(HERE, {name.replace(".", "_"): SECRET}),
    "parallel": lambda name: _parallel({name: SECRET}),
    "broker": lambda name: BrokerSettings({name: SECRET}),
    "spark kafka": lambda name: ReadOptions.of({**SPARK, f"kafka.{name}": SECRET}, is_stream=True),
    "spark source": lambda name: ReadOptions.of({**SPARK, name: SECRET}, is_stream=True),
    "spark sink kafka": lambda name: WriteOptions.of(
        {"kafka.bootstrap.servers": "127.0.0.1:1", f"kafka.{name}": SECRET}
    ),
    "spark sink": lambda name: WriteOptions.of({"kafka.bootstrap.servers": "127.0.0.1:1", name: SECRET}),
    "zookeeper file": lambda name: from_properties({f"zookeeper.{name}": SECRET}),
    "zookeeper tls": lambda name: checked_tls({name: SECRET}),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_setting_is_named_without_its_value(door, name):
    with pytest.raises(SeamarkError) as caught:
        DOORS[door](name)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(vars(caught.value))
    assert SECRET not in told
    assert name in told or name.replace(".", "_") in told
    assert "=''" not in str(caught.value)


def test_a_key_that_is_no_text_is_named_without_its_value():
    with pytest.raises(ConfigError) as caught:
        AdminConfig.from_options({**HERE, b"sasl.password": SECRET})
    assert str(caught.value) == "b'sasl.password': a configuration key must be a string"


def test_a_password_in_an_address_is_not_shown():
    with pytest.raises(ConfigError) as caught:
        AdminConfig.from_options({"bootstrap.servers": f"alice:{SECRET}@broker:9092"})
    assert str(caught.value) == "bootstrap.servers='…@broker:9092': must be host:port with a port from 1 to 65535"
    with pytest.raises(ConfigError) as caught:
        AdminConfig.from_options({"bootstrap.servers": "broker"})
    assert "bootstrap.servers='broker'" in str(caught.value)


def test_certificates_that_may_come_with_their_key_are_not_shown():
    config = AdminConfig.from_options(
        {
            **HERE,
            "ssl.keystore.certificate.chain": SECRET,
            "ssl.keystore.key": SECRET,
            "ssl.truststore.certificates": SECRET,
        }
    )
    assert SECRET not in repr(config) + str(config.as_keys())


@pytest.mark.parametrize(
    "words", [["broker", "-o", SECRET], ["topics", "list", "-o", SECRET], ["broker", "-o", f"zzz={SECRET}"]]
)
def test_a_command_does_not_repeat_what_was_given_as_an_option(words):
    done = subprocess.run([sys.executable, "-m", "seamark", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert SECRET not in done.stdout + done.stderr

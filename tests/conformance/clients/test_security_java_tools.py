"""Kafka's own command line tools, over TLS and with a login: rules by kafka-acls, and users without rights."""

from __future__ import annotations

import subprocess

import pytest

from seamark.broker import Broker
from seamark.broker.security.security import Security, Tls
from tests.support.certificates import Authority
from tests.support.java import short_lived_java, utf_8_environment
from tests.support.maven import class_path, kafka_jars

ACLS = "org.apache.kafka.tools.AclCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCE = "org.apache.kafka.tools.ConsoleProducer"
pytestmark = pytest.mark.java


class Tools:
    """Runs a tool as one of the users."""

    def __init__(self, broker, directory, authority):
        self._broker = broker
        self._directory = directory
        self._authority = authority
        self._classpath = class_path(kafka_jars())

    def log_end(self, topic):
        return self._broker._server.cluster.partition(topic, 0).log_end

    def run(self, user, main_class, *arguments, config="--command-config", stdin=""):
        properties = self._directory / f"{user}.properties"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        properties.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={module} required username="{user}" password="{user}-secret";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self._authority.certificate}\n"
            "ssl.endpoint.identification.algorithm=https\nenable.idempotence=true\nmax.block.ms=10000\n"
            "default.api.timeout.ms=10000\nrequest.timeout.ms=5000\ndelivery.timeout.ms=10000\n"
        )
        where = ["--bootstrap-server", self._broker.bootstrap, config, str(properties)]
        command = short_lived_java(self._classpath, main_class, [*where, *arguments])
        done = subprocess.run(
            command, env=utf_8_environment(), input=stdin, capture_output=True, text=True, timeout=90, check=False
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tools")
    authority = Authority(directory)
    certificate = authority.sign("/CN=broker")
    users = {name: f"{name}-secret" for name in ("admin", "alice")}
    security = Security(
        tls=Tls(certificate.both), users=users, mechanisms=["SCRAM-SHA-512"], super_users=["User:admin"]
    )
    with Broker(security=security) as broker:
        broker.create_topic("orders")
        yield Tools(broker, directory, authority)


def test_rules_are_added_listed_and_removed_by_kafka_acls(tools):
    added = tools.run("admin", ACLS, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "ord",
                      "--resource-pattern-type", "prefixed")  # fmt: skip
    assert "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=ord, patternType=PREFIXED)`" in added
    listed = tools.run("admin", ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in listed
    tools.run("alice", PRODUCE, "--topic", "orders", config="--producer.config", stdin="one\ntwo\n")
    assert tools.log_end("orders") == 2
    assert "orders" in tools.run("alice", TOPICS, "--list")
    removed = tools.run("admin", ACLS, "--remove", "--force", "--topic", "ord", "--resource-pattern-type", "prefixed")
    assert "Error" not in removed
    assert "orders" not in tools.run("alice", TOPICS, "--list")


def test_a_user_without_rights_is_told_so(tools):
    before = tools.log_end("orders")
    assert "Cluster authorization failed" in tools.run("alice", ACLS, "--list")
    described = tools.run("alice", GROUPS, "--describe", "--group", "g")
    assert "GroupAuthorizationException" in described
    assert "TopicAuthorizationException" in tools.run(
        "alice", PRODUCE, "--topic", "orders", config="--producer.config", stdin="one\n"
    )
    assert tools.log_end("orders") == before

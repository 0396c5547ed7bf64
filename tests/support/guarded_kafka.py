"""An Apache Kafka with access rules: administrators use its first listener, users log in at a second one.

Its offsets expire and its crashed members are missed soon, so that a test need not wait for either.
"""

from __future__ import annotations

from tests.support.apache_kafka import ApacheKafka
from tests.support.maven import NEWEST_KAFKA
from tests.support.watched_server import free_ports

# Whoever logs in has no right before a test gives one.
USERS = {"watcher": "w4tch", "guest": "gu3st"}


class GuardedKafka(ApacheKafka):
    """``bootstrap`` is for administrators, ``login`` is where ``USERS`` log in with PLAIN."""

    def __init__(self, version: str = NEWEST_KAFKA) -> None:
        super().__init__(version)
        (port,) = free_ports(1)
        self.login = f"127.0.0.1:{port}"
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        listeners = f"CLIENT://{self.bootstrap},LOGIN://{self.login}"
        self._settings |= {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "group.min.session.timeout.ms": 1000,
            "offsets.retention.check.interval.ms": 300,
            "offsets.topic.num.partitions": 4,
        }

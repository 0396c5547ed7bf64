"""TLS and SASL against Apache Kafka: the right secrets are accepted, wrong ones are one sentence, none is shown."""

import logging
import time

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from seamark.acls import Acl, AclFilter
from seamark.client import Admin, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import AuthenticationFailed, BrokerError, ClientError, TlsFailed
from seamark.errors import ConfigError
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.apache_kafka import VERSIONS, ApacheKafka
from tests.support.certificates import Authority
from tests.support.watched_server import free_ports

PASSWORD = "s3cret,with=signs"
MODULE = "org.apache.kafka.common.security"
# For what is tried again until the time is up.
SOON = 2.0


class Secured:
    """An Apache Kafka with four listeners: CLIENT asks for SASL, TLS for a certificate's trust, BOTH for both."""

    def __init__(self, version, directory):
        self.authority = Authority(directory)
        server = self.authority.sign("/CN=server")
        self.client = self.authority.sign("/CN=client", password="keypass")
        self.stranger = Authority(_made(directory / "stranger"))
        self.kafka = kafka = ApacheKafka(version)
        self.tls_port, self.both_port, inside = free_ports(3)
        plain = f'{MODULE}.plain.PlainLoginModule required username="admin" password="admin" '
        plain += f'user_admin="admin" user_alice="{PASSWORD}" user_mallory="m";'
        scram = f"{MODULE}.scram.ScramLoginModule required;"
        names = ["CLIENT", "BOTH"]
        self.settings = {
            "listeners": f"CLIENT://127.0.0.1:{kafka.port},TLS://127.0.0.1:{self.tls_port},"
            f"BOTH://127.0.0.1:{self.both_port},INSIDE://127.0.0.1:{inside},"
            f"CONTROLLER://127.0.0.1:{kafka._controller_port}",
            "advertised.listeners": f"CLIENT://127.0.0.1:{kafka.port},TLS://127.0.0.1:{self.tls_port},"
            f"BOTH://127.0.0.1:{self.both_port},INSIDE://127.0.0.1:{inside}",
            "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL,INSIDE:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server.both,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.certificate,
            "listener.name.tls.ssl.client.auth": "required",
            "connections.max.reauth.ms": 3000,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS;User:alice;User:CN=client",
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": plain for name in names},
            **{f"listener.name.{name.lower()}.scram-sha-256.sasl.jaas.config": scram for name in names},
            **{f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config": scram for name in names},
        }
        kafka._settings.update(self.settings)
        self.inside = f"127.0.0.1:{inside}"
        self.sasl = f"127.0.0.1:{kafka.port}"
        self.tls = f"127.0.0.1:{self.tls_port}"
        self.both = f"127.0.0.1:{self.both_port}"

    def start(self):
        self.kafka.start()
        self._add_scram_user("alice")

    def _add_scram_user(self, name):
        # Quiet: it cannot be closed, and may outlive its broker.
        admin = AdminClient({"bootstrap.servers": self.inside, "log_level": 0})
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        # Kafka takes one mechanism of a user per request.
        for mechanism in mechanisms:
            secret = UserScramCredentialUpsertion(
                name, ScramCredentialInfo(mechanism, 4096), PASSWORD.replace(",", "").encode()
            )
            admin.alter_user_scram_credentials([secret])[name].result(30)
        # The controller has taken them; the broker is told after that.
        until = time.monotonic() + 30
        while len(self._scram_credentials(admin, name)) < len(mechanisms):
            assert time.monotonic() < until, f"{name} is not known"
            time.sleep(0.05)

    def _scram_credentials(self, admin, name):
        try:
            return admin.describe_user_scram_credentials([name])[name].result(30).scram_credential_infos
        except KafkaException as error:
            if error.args[0].code() != KafkaError.RESOURCE_NOT_FOUND:
                raise
            return []


def _made(directory):
    directory.mkdir()
    return directory


@pytest.fixture(scope="module", params=VERSIONS)
def secured(request, tmp_path_factory):
    broker = Secured(request.param, tmp_path_factory.mktemp("certificates"))
    try:
        broker.start()
        yield broker
    finally:
        broker.kafka.close()


pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def sasl_options(secured, mechanism="PLAIN", password=None, user="alice"):
    secret = (PASSWORD if mechanism == "PLAIN" else PASSWORD.replace(",", "")) if password is None else password
    return {
        "bootstrap.servers": secured.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": secret,
    }


def tls_options(secured, **more):
    options = {
        "bootstrap.servers": secured.tls,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(secured.authority.certificate),
        "ssl.keystore.location": str(secured.client.both),
        "ssl.key.password": "keypass",
    }
    return options | {key.replace("_", "."): value for key, value in more.items()}


def works(options):
    with Admin(options, default_api_timeout_ms=15_000) as admin:
        return bool(admin.describe_cluster().brokers) and admin.list_groups() is not None


def failure(options, kind, seconds=3.0):
    started = time.monotonic()
    with Admin(options, default_api_timeout_ms=int(seconds * 1000)) as admin, pytest.raises(kind) as caught:
        admin.describe_cluster()
    assert time.monotonic() - started < seconds + 5
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_right_password_is_accepted(secured, mechanism):
    assert works(sasl_options(secured, mechanism))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_at_once_with_address_and_mechanism(secured, mechanism):
    said = failure(sasl_options(secured, mechanism, password="wrong-one"), AuthenticationFailed)
    assert secured.sasl in said
    assert mechanism in said
    assert "wrong-one" not in said


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_an_unknown_user_is_refused(secured, mechanism):
    assert "nobody" in failure(sasl_options(secured, mechanism, user="nobody"), AuthenticationFailed)


def test_kafkas_own_form_of_credentials_is_accepted(secured):
    options = sasl_options(secured)
    del options["sasl.username"], options["sasl.password"]
    options["sasl.jaas.config"] = f'{MODULE}.plain.PlainLoginModule required username="alice" password="{PASSWORD}";'
    assert works(options)


def test_a_secured_port_spoken_to_in_plain_is_said(secured):
    options = {"bootstrap.servers": secured.sasl}
    said = failure(options, ClientError, SOON)
    assert secured.sasl in said
    assert "security.protocol" in said


def test_a_tls_port_spoken_to_in_plain_is_said(secured):
    said = failure({"bootstrap.servers": secured.tls}, ClientError, SOON)
    assert secured.tls in said
    assert "TLS" in said
    assert "set security.protocol to SSL or SASL_SSL" in said


def test_sasl_works_inside_tls(secured):
    options = sasl_options(secured, "SCRAM-SHA-512") | {
        "bootstrap.servers": secured.both,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(secured.authority.certificate),
    }
    assert works(options)


def test_tls_with_our_certificate_is_accepted(secured):
    assert works(tls_options(secured))


def test_tls_with_texts_in_place_of_files_is_accepted(secured):
    options = tls_options(secured)
    del options["ssl.truststore.location"], options["ssl.keystore.location"]
    options |= {
        "ssl.truststore.certificates": secured.authority.certificate.read_text(),
        "ssl.keystore.certificate.chain": secured.client.certificate.read_text(),
        "ssl.keystore.key": secured.client.key.read_text(),
    }
    assert works(options)


def test_a_broker_whose_authority_is_not_trusted_is_refused(secured):
    options = tls_options(secured, ssl_truststore_location=str(secured.stranger.certificate))
    said = failure(options, TlsFailed)
    assert "certificate is not accepted" in said
    assert secured.tls in said


def test_a_certificate_of_another_host_is_refused_unless_names_are_not_checked(secured):
    name = "127.0.0.2"
    options = tls_options(secured, bootstrap_servers=secured.tls.replace("127.0.0.1", name))
    with Admin(options, default_api_timeout_ms=2000) as admin, pytest.raises(ClientError) as caught:
        admin.describe_cluster()
    # The broker listens on one address only where the system refuses the other: both are sentences with the address.
    assert name in str(caught.value)


def test_without_our_certificate_the_broker_ends_the_connection(secured):
    options = tls_options(secured)
    del options["ssl.keystore.location"], options["ssl.key.password"]
    assert secured.tls in failure(options, ClientError, SOON)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"ssl.truststore.location": "/no/such/file.pem"}, "ssl.truststore.location"),
        ({"ssl.keystore.location": "/no/such/file.pem"}, "ssl.keystore.location"),
        ({"ssl.key.password": "wrong"}, "ssl.keystore.location"),
        ({"ssl.cipher.suites": "NO-SUCH-CIPHER"}, "ssl.cipher.suites"),
        ({"ssl.truststore.certificates": "not pem"}, "ssl.truststore.certificates"),
    ],
)
def test_unusable_files_are_refused_when_the_client_is_made(secured, change, key):
    with pytest.raises(ConfigError) as caught:
        Admin(tls_options(secured) | change)
    assert caught.value.option == key
    assert "keypass" not in str(caught.value)


def test_a_session_that_ends_is_replaced_before_a_request_meets_its_end(secured):
    with Admin(sasl_options(secured, "SCRAM-SHA-256"), default_api_timeout_ms=10_000) as admin:
        until = time.monotonic() + 5.5
        while time.monotonic() < until:
            admin.list_groups()
            time.sleep(0.1)
        opened = sum(each.opened_count for each in admin._network._connections.values())
        assert opened >= 2


def test_a_right_that_is_missing_is_one_sentence_with_the_topic(secured):
    with Admin(sasl_options(secured), default_api_timeout_ms=15_000) as admin:
        admin.create_topics([NewTopic("guarded", 1)])
    with Admin(sasl_options(secured, user="mallory", password="m"), default_api_timeout_ms=10_000) as admin:
        error = admin.describe_topics(["guarded"]).errors["guarded"]
        assert isinstance(error, BrokerError)
        assert error.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        refused = admin.alter_group_offsets("g", {TopicPartition("guarded", 0): 1}).errors
        assert {each.code for each in refused.values()} <= {
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        assert refused


def test_access_rules_are_made_shown_and_removed(secured):
    rule = Acl("User:mallory", "READ", "TOPIC", "ledger", pattern="PREFIXED")
    with Admin(sasl_options(secured), default_api_timeout_ms=15_000) as admin:
        admin.create_acls([rule]).raise_if_failed()
        until = time.monotonic() + 10
        while rule not in admin.describe_acls() and time.monotonic() < until:
            time.sleep(0.05)
        assert rule in admin.describe_acls(AclFilter("User:mallory", resource_type="topic"))
        ledger = AclFilter(resource_type="topic", name="ledger", pattern="prefixed")
        assert admin.delete_acls([ledger]).raise_if_failed() == {ledger: [rule]}
        while rule in admin.describe_acls(AclFilter()) and time.monotonic() < until:
            time.sleep(0.05)
        assert rule not in admin.describe_acls()


def test_no_secret_reaches_the_logs(secured, caplog):
    with caplog.at_level(logging.DEBUG):
        assert works(sasl_options(secured))
        failure(sasl_options(secured, "SCRAM-SHA-256", password=PASSWORD + "x"), AuthenticationFailed)
    assert PASSWORD not in caplog.text

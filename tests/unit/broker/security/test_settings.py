"""What is asked of clients, said as a value and in Kafka's keys; secrets stay out of everything that is shown."""

from __future__ import annotations

import ssl

import pytest

from seamark.acls import Acl
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.security.sasl import SaslSession
from seamark.broker.security.security import Security, Tls
from seamark.broker.security.sessions import GuardedSession, Session
from seamark.broker.security.subject import BadCertificate, subject_of
from seamark.errors import ConfigError
from tests.support.certificates import Authority

SECRET = "tr0ub4dor"
JAAS = f'PlainLoginModule required username="a" password="b" user_alice="{SECRET}" user_bob=b0b;'
KEYSTORE = "ssl.keystore.certificate.chain"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.sign("/CN=broker")


def test_without_anything_said_the_broker_is_open():
    gatekeeper = Gatekeeper()
    assert gatekeeper.is_open
    assert type(gatekeeper.new_session()) is Session
    assert gatekeeper.new_session().is_unrestricted
    assert gatekeeper.protocol == "PLAINTEXT"
    assert gatekeeper.server_tls() is None


def test_users_turn_on_a_login_with_all_mechanisms():
    gatekeeper = Gatekeeper(Security(users={"alice": SECRET}))
    assert gatekeeper.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert gatekeeper.protocol == "SASL_PLAINTEXT"
    assert not gatekeeper.is_open
    session = gatekeeper.new_session()
    assert isinstance(session, SaslSession)
    assert session.max_frame_bytes == 524_288


def test_rules_alone_restrict_the_anonymous():
    gatekeeper = Gatekeeper(Security(acls=[Acl("User:ANONYMOUS", "READ", "TOPIC", "open")]))
    session = gatekeeper.new_session()
    assert isinstance(session, GuardedSession)
    assert not session.is_unrestricted
    assert not gatekeeper.is_open


def test_encryption_alone_lets_everybody_in(certificate):
    gatekeeper = Gatekeeper(Security(tls=Tls(certificate.certificate, certificate.key)))
    assert gatekeeper.is_open
    assert gatekeeper.protocol == "SSL"
    assert gatekeeper.server_tls().minimum_version is ssl.TLSVersion.TLSv1_2


def test_required_certificates_close_the_broker(certificate, authority):
    tls = Tls(certificate.both, client_ca=authority.certificate)
    assert tls.asks_clients == "required"
    assert not Gatekeeper(Security(tls=tls)).is_open
    requested = Tls(certificate.both, client_ca=authority.certificate, client_auth="requested")
    assert Gatekeeper(Security(tls=requested)).is_open
    assert requested.context().verify_mode is ssl.CERT_OPTIONAL


def test_kafkas_keys_say_the_same(certificate, authority, tmp_path):
    users = tmp_path / "users"
    users.write_text(f"# people\n\ncarol:{SECRET}: with colon\n")
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "requested",
        "ssl.enabled.protocols": "TLSv1.3",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
        "seamark.users.file": str(users),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:CN=broker,O=x",
        "allow.everyone.if.no.acl.found": "true",
        "connections.max.reauth.ms": "5000",
    }
    assert BrokerSettings(given).given == given
    gatekeeper = Gatekeeper(None, given)
    assert gatekeeper.protocol == "SASL_SSL"
    assert gatekeeper.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert gatekeeper.super_users == {"User:admin", "User:CN=broker,O=x"}
    assert gatekeeper.max_reauth_ms == 5000
    assert gatekeeper.acls is not None
    context = gatekeeper.server_tls()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_OPTIONAL
    for user, password in (("alice", SECRET), ("bob", "b0b"), ("carol", f"{SECRET}: with colon")):
        exchange = gatekeeper.new_exchange("PLAIN")
        exchange.step(f"\0{user}\0{password}".encode())
        assert exchange.user == user


def test_pem_texts_stand_in_the_settings_themselves(certificate):
    given = {
        "ssl.keystore.type": "PEM",
        KEYSTORE: certificate.certificate.read_text(),
        "ssl.keystore.key": certificate.key.read_text(),
    }
    assert Gatekeeper(None, given).protocol == "SSL"


def test_an_encrypted_key_needs_its_password(authority):
    locked = authority.sign("/CN=locked", password=SECRET)
    assert Tls(locked.certificate, locked.key, SECRET).context()
    for password in (None, "wrong"):
        with pytest.raises(ConfigError, match=r"ssl\.keystore") as caught:
            Tls(locked.certificate, locked.key, password).context()
        assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"ssl.keystore.location": "x.jks"}, "ssl.keystore.type"),
        ({"ssl.keystore.location": "nowhere.pem", "ssl.keystore.type": "PEM"}, "ssl.keystore"),
        ({"ssl.client.auth": "required"}, "ssl.keystore.location"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms"),
        ({"super.users": "admin"}, "super.users"),
        ({"allow.everyone.if.no.acl.found": "maybe"}, "allow.everyone.if.no.acl.found"),
        ({"connections.max.reauth.ms": "-1"}, "connections.max.reauth.ms"),
        ({"seamark.users.file": "nowhere"}, "seamark.users.file"),
        ({KEYSTORE: "x.pem", "ssl.keystore.key": SECRET}, "ssl.keystore"),
        ({KEYSTORE: f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"}, "ssl.keystore"),
    ],
)
def test_a_bad_setting_is_one_sentence_that_names_the_key(given, named):
    with pytest.raises(ConfigError) as caught:
        Gatekeeper(None, given)
    assert named in str(caught.value)
    assert SECRET not in str(caught.value)


def test_old_tls_is_not_offered(certificate):
    with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols"):
        Tls(certificate.both, protocols=("TLSv1.1",)).context()


def test_client_certificates_without_an_authority_are_a_contradiction(certificate):
    with pytest.raises(ConfigError, match=r"ssl\.client\.auth"):
        Tls(certificate.both, client_auth="required").context()


def test_a_line_without_a_password_is_refused_by_its_number(tmp_path):
    users = tmp_path / "users"
    users.write_text("alice:x\nbob\n")
    with pytest.raises(ConfigError, match="line 2"):
        Gatekeeper(None, {"seamark.users.file": str(users)})


@pytest.mark.parametrize("again", ["alice:x", "alice:y", " alice : y"])
def test_a_user_who_is_named_twice_is_refused_by_the_file_and_the_line(tmp_path, again):
    users = tmp_path / "users"
    users.write_text(f"alice:x\n# a comment\nbob:z\n{again}\n")
    with pytest.raises(ConfigError, match="line 4 names the user 'alice' again, who is in line 1") as caught:
        Gatekeeper(None, {"seamark.users.file": str(users)})
    assert str(users) in str(caught.value)


def test_a_user_with_two_passwords_in_two_places_is_refused_without_showing_them(tmp_path):
    users = tmp_path / "users"
    users.write_text(f"alice:{SECRET}\n")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{}";'
    with pytest.raises(ConfigError, match="line 1 gives the user 'alice' another password") as caught:
        Gatekeeper(None, {"seamark.users.file": str(users), "sasl.jaas.config": jaas.format("third")})
    assert SECRET not in str(caught.value)
    assert "third" not in str(caught.value)
    Gatekeeper(None, {"seamark.users.file": str(users), "sasl.jaas.config": jaas.format(SECRET)})


def test_the_argument_and_the_settings_may_not_both_say_who_the_users_are():
    with pytest.raises(ConfigError, match="both"):
        Gatekeeper(Security(users={"alice": "x"}), {"sasl.jaas.config": JAAS})


@pytest.mark.parametrize(
    "wrong", [{"mechanisms": ["NTLM"]}, {"mechanisms": "PLAIN"}, {"super_users": ["admin"]}, {"users": {"alice": ""}}]
)
def test_a_wrong_argument_is_refused_where_it_is_made(wrong):
    with pytest.raises(ConfigError):
        Security(**wrong)


def test_nothing_that_is_shown_holds_a_secret():
    pem = f"-----BEGIN X-----{SECRET}"
    security = Security(users={"alice": SECRET}, tls=Tls(pem, pem, SECRET, pem))
    assert SECRET not in repr(security)
    assert SECRET not in str(security.users)
    with pytest.raises(ConfigError) as caught:
        security.tls.context()
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "setting", ["ssl.keystore.lokation", "sasl.enabled.mechanism", "listener.name.x.oauth.sasl.jaas.config"]
)
def test_a_misspelt_security_setting_is_refused(setting):
    with pytest.raises(ConfigError):
        BrokerSettings({setting: "x"})


def test_a_super_user_is_asked_nothing_and_the_others_everything():
    gatekeeper = Gatekeeper(Security(super_users=["User:admin"]))
    session = GuardedSession(gatekeeper)
    session.become("User:admin")
    assert session.is_unrestricted
    session.become("User:eve")
    assert not session.is_unrestricted


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("/CN=alice", "CN=alice"),
        ("/C=DE/O=Seamark/OU=Tests/CN=alice", "CN=alice,OU=Tests,O=Seamark,C=DE"),
        ("/DC=org/DC=seamark/UID=u1/CN=bob", "CN=bob,UID=u1,DC=seamark,DC=org"),
        (r'/O=A\, B "x" \= <y> #z;\\w/CN=Jörg \+1 ', r"CN=Jörg \+1\ ,O=A\, B \"x\" \= \<y\> \#z\;\\w"),
        ("/emailAddress=a@b.c/serialNumber=77/CN=x", "CN=x,2.5.4.5=#13023737,1.2.840.113549.1.9.1=#16056140622e63"),
    ],
)
def test_the_principal_of_a_certificate_is_written_as_java_writes_it(authority, subject, name):
    # The expected texts are what X500Principal.getName() gives for these subjects.
    pem = authority.sign(subject).certificate.read_text()
    assert subject_of(ssl.PEM_cert_to_DER_cert(pem)) == name


@pytest.mark.parametrize("damage", [b"", b"\x30", b"\x30\x03\x02\x01", b"\x30\x82\xff\xff" + bytes(20), bytes(50)])
def test_a_certificate_that_cannot_be_read_is_an_error_of_its_own(damage):
    with pytest.raises(BadCertificate):
        subject_of(damage)


def test_a_key_that_is_no_file_is_not_shown(certificate):
    with pytest.raises(ConfigError) as caught:
        Tls(certificate.certificate, SECRET).context()
    assert SECRET not in str(caught.value)

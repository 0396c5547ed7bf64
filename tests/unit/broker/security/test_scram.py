"""SCRAM on the server's side, against the published example, a client written from the RFC, and clients that lie."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from seamark.broker.security.sasl import AuthenticationFailed, PlainExchange
from seamark.broker.security.scram import ScramExchange
from seamark.broker.security.users import ScramCredential, Users
from seamark.errors import ConfigError

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
USERS = Users({"alice": "pässword, with = signs", "a,b=c": "x"}, ["PLAIN", *MECHANISMS])


class ScramClient:
    def __init__(self, mechanism, user, password, nonce="clientnonce", extensions=""):
        self.hash_name = "sha" + mechanism[-3:]
        self.password = password
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extensions}"
        self.nonce = nonce
        self.first = f"n,,{self.bare}".encode()

    def final(self, server_first, nonce=None, binding=b"n,,"):
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self.hash_name, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
        )
        client_key = hmac.digest(salted, b"Client Key", self.hash_name)
        without_proof = f"c={base64.b64encode(binding).decode()},r={nonce or fields['r']}"
        signed = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self.hash_name, client_key).digest(), signed, self.hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self.hash_name)
        self.expected = b"v=" + base64.b64encode(hmac.digest(server_key, signed, self.hash_name))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def test_the_example_of_rfc_7677():
    users = Users({}, [])
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users._credentials["user", "sha256"] = ScramCredential.derive("sha256", "pencil", salt, 4096)
    exchange = ScramExchange("SCRAM-SHA-256", users, lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.user is None
    final = exchange.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "pässword, with = signs"), ("a,b=c", "x")])
def test_both_sides_prove_that_they_know_the_password(mechanism, user, password):
    exchange = ScramExchange(mechanism, USERS)
    client = ScramClient(mechanism, user, password, extensions=",tokenauth=false")
    final = client.final(exchange.step(client.first))
    assert exchange.step(final) == client.expected
    assert exchange.user == user
    with pytest.raises(AuthenticationFailed):
        exchange.step(final)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_and_an_unknown_user_go_the_same_way(mechanism, user):
    exchange = ScramExchange(mechanism, USERS)
    client = ScramClient(mechanism, user, "wrong")
    answer = exchange.step(client.first)
    assert b",i=4096" in answer
    with pytest.raises(AuthenticationFailed) as caught:
        exchange.step(client.final(answer))
    assert str(caught.value) == "the client's proof is wrong"
    assert caught.value.public is None
    assert exchange.user is None


def test_an_unknown_user_has_the_same_salt_each_time_and_another_in_another_broker():
    def salt(users, user):
        return ScramExchange("SCRAM-SHA-256", users).step(f"n,,n={user},r=x".encode()).split(b",s=")[1]

    assert salt(USERS, "nobody") == salt(USERS, "nobody")
    assert salt(USERS, "nobody") != salt(USERS, "somebody")
    assert salt(USERS, "nobody") != salt(Users({}, []), "nobody")
    assert len(salt(USERS, "nobody")) == len(salt(USERS, "alice"))


@pytest.mark.parametrize(
    "first",
    [b"", b"\xff\xfe", b"n,,n=,r=x", b"n,,n=alice", b"y,,n=alice,r=x", b"p=tls-unique,,n=alice,r=x", b"n,,n=a=b,r=x",
     b"n,,n=alice,r=", b"n,,r=x,n=alice", b"n,,n=alice,r=x,", b"n,,n=al\0ice,r=x", b"n," * 100_000],
)  # fmt: skip
def test_a_first_message_of_another_form_is_refused(first):
    with pytest.raises(AuthenticationFailed):
        ScramExchange("SCRAM-SHA-256", USERS).step(first)


def test_an_authorization_id_must_be_the_user():
    assert ScramExchange("SCRAM-SHA-256", USERS).step(b"n,a=alice,n=alice,r=x")
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        ScramExchange("SCRAM-SHA-256", USERS).step(b"n,a=root,n=alice,r=x")


@pytest.mark.parametrize("change", ["nonce", "binding", "proof", "no proof", "short proof", "bad base64"])
def test_a_final_message_that_does_not_fit_is_refused(change):
    exchange = ScramExchange("SCRAM-SHA-256", USERS)
    client = ScramClient("SCRAM-SHA-256", "alice", "pässword, with = signs")
    answer = exchange.step(client.first)
    if change == "nonce":
        # The client's own part alone: an answer to another server's challenge.
        final = client.final(answer, nonce="clientnonce")
    elif change == "binding":
        final = client.final(answer, binding=b"y,,")
    else:
        head, proof = client.final(answer).split(b",p=")
        changed = {"proof": base64.b64encode(bytes(32)), "no proof": b"", "short proof": b"AAAA", "bad base64": b"A"}
        final = head + b",p=" + changed[change] if change in changed else proof
    with pytest.raises(AuthenticationFailed):
        exchange.step(final)
    assert exchange.user is None


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0al\xff\0wrong", "Authentication failed: Invalid username or password"),
        ("root\0alice\0pässword, with = signs".encode(),
         "Authentication failed: Client requested an authorization id that is different from username"),
    ],
)  # fmt: skip
def test_plain_refuses_in_kafkas_words(token, sentence):
    exchange = PlainExchange(USERS)
    with pytest.raises(AuthenticationFailed) as caught:
        exchange.step(token)
    assert caught.value.public == sentence
    assert exchange.user is None


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_plain_takes_the_right_password(authorization_id):
    exchange = PlainExchange(USERS)
    assert exchange.step(f"{authorization_id}\0alice\0pässword, with = signs".encode()) == b""
    assert exchange.user == "alice"


def test_no_login_runs_the_slow_hash_whatever_it_holds(monkeypatch):
    calls = []
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *_: calls.append(1))
    for user in ("alice", "nobody"):
        with pytest.raises(AuthenticationFailed):
            PlainExchange(USERS).step(f"\0{user}\0wrong".encode())
        ScramExchange("SCRAM-SHA-256", USERS).step(f"n,,n={user},r=x".encode())
    assert PlainExchange(USERS).step("\0alice\0pässword, with = signs".encode()) == b""
    assert not calls


def test_an_unknown_user_costs_as_many_hashes_as_a_known_one(monkeypatch):
    calls = []
    digest = hmac.digest
    monkeypatch.setattr(hmac, "digest", lambda *given: calls.append(1) or digest(*given))
    counts = []
    for user in ("alice", "nobody"):
        with pytest.raises(AuthenticationFailed):
            PlainExchange(USERS).step(f"\0{user}\0wrong".encode())
        ScramExchange("SCRAM-SHA-256", USERS).step(f"n,,n={user},r=x".encode())
        counts.append(len(calls))
        calls.clear()
    assert counts[0] == counts[1] > 0


def test_nothing_that_is_kept_shows_the_password():
    users = Users({"alice": "tr0ub4dor"}, ["PLAIN", *MECHANISMS])
    shown = repr(users) + repr(users.__dict__) + repr(users.credential("alice", "sha256"))
    assert "tr0ub4dor" not in shown


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("a\0b", "x"), ("alice", ""), ("alice", None), (1, "x")])
def test_a_user_that_could_never_log_in_is_refused(user, password):
    with pytest.raises(ConfigError, match="users"):
        Users({user: password}, ["PLAIN"])

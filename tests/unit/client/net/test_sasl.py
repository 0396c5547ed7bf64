"""SCRAM: the RFC's own example, and a server that is not what it says."""

import base64
import hashlib
import hmac

import pytest

from seamark.client.net.sasl import ScramClient, ScramError, prepare

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
OUTCOME = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client():
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_messages_are_those_of_the_rfc():
    scram = client()
    assert scram.first_message() == b"n,,n=user,r=" + NONCE.encode()
    assert scram.final_message(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.verify(OUTCOME)


def test_a_server_that_does_not_know_the_password_is_not_believed():
    scram = client()
    scram.final_message(CHALLENGE)
    with pytest.raises(ScramError, match="does not know the password"):
        scram.verify(b"v=" + base64.b64encode(b"x" * 32))


def test_a_proof_before_the_challenge_is_not_believed():
    with pytest.raises(ScramError):
        client().verify(OUTCOME)


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (CHALLENGE.replace(b"r=rOpr", b"r=xxxx"), "nonce"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "nonce"),
        (CHALLENGE.replace(b"i=4096", b"i=1"), "iteration count"),
        (CHALLENGE.replace(b"i=4096", b"i=4095"), "iteration count 4095 is outside the range"),
        (CHALLENGE.replace(b"i=4096", b"i=1000001"), "iteration count 1000001 is outside the range"),
        (CHALLENGE.replace(b"i=4096", b"i=10000000"), "iteration count"),
        (CHALLENGE.replace(b"i=4096", b"i=" + b"9" * 100_000), "iteration count"),
        (CHALLENGE.replace(b"i=4096", b"i=-5000"), "iteration count"),
        (CHALLENGE.replace(b"W22Z", b"****"), "base64"),
        (CHALLENGE.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "salt"),
        (b"m=ext," + CHALLENGE, "extension"),
        (b"e=unknown-user", "unknown-user"),
        (b"", "not a SCRAM message"),
        (b"hello", "not a SCRAM message"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_a_bad_challenge_ends_the_exchange_with_a_reason(challenge, why):
    with pytest.raises(ScramError, match=why):
        client().final_message(challenge)


@pytest.mark.parametrize("outcome", [b"e=other-error", b"v=***", b"", b"x"])
def test_a_bad_outcome_is_an_error(outcome):
    scram = client()
    scram.final_message(CHALLENGE)
    with pytest.raises(ScramError):
        scram.verify(outcome)


def server_accepts(mechanism, algorithm, client_first, client_final, server_first, password):
    """The server's check as RFC 5802 section 3 writes it, from the stored key alone."""
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    stored = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
    bare, proof = client_final.decode().rsplit(",p=", 1)
    message = f"{client_first.decode()[3:]},{server_first.decode()},{bare}".encode()
    signature = hmac.digest(stored, message, algorithm)
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    return hashlib.new(algorithm, key).digest() == stored


@pytest.mark.parametrize(("mechanism", "algorithm"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_a_server_accepts_the_right_password_only(mechanism, algorithm):
    scram = ScramClient(mechanism, "a,b=c", "right", "abc")
    first = scram.first_message()
    assert first == b"n,,n=a=2Cb=3Dc,r=abc"
    challenge = b"r=abcdef,s=c2FsdA==,i=8192"
    final = scram.final_message(challenge)
    assert server_accepts(mechanism, algorithm, first, final, challenge, "right")
    assert not server_accepts(mechanism, algorithm, first, final, challenge, "wrong")


def test_names_are_prepared_as_rfc_4013_says():
    assert prepare("I\u00adX") == "IX"
    assert prepare("\u00aa") == "a"
    assert prepare("\u2168") == "IX"
    with pytest.raises(ScramError):
        prepare("\u0007")
    with pytest.raises(ScramError):
        prepare("\ue000é")

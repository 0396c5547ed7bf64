"""What the values of configuration keys must be together: one function per rule, each naming the key that is wrong.

They run after every key was read on its own, so a combination is refused when the client is made and not when the first
request fails. A rule that settles a default gives the value that holds.
"""

from __future__ import annotations

import re
from typing import Any

from seamark.addresses import parse_address
from seamark.client.config.credentials import MECHANISMS, read_jaas
from seamark.errors import HIDDEN, ConfigError

_SCHEME = re.compile(r"\A[a-zA-Z][a-zA-Z0-9_]*://")
_HOST = re.compile(r"[0-9a-fA-F:.%]+|[^\s:/,\[\]]+")
# ISO 8601 as Java's Duration reads it: days, hours, minutes, seconds; no negative parts.
_DURATION = re.compile(r"by_duration:P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?\Z")


def host_and_port(address: str) -> tuple[str, int]:
    """The two halves of "host:port"; an IPv6 address stands in brackets.

    >>> host_and_port("[::1]:9092")
    ('::1', 9092)
    """
    # As in a URL, there may be a name and a password before the host, where they have no place.
    shown = f"…@{address.rpartition('@')[2]}" if "@" in address else address
    try:
        host, port = parse_address("bootstrap.servers", _SCHEME.sub("", address, 1))
    except ConfigError:
        host, port = "", 0
    if not port or _HOST.fullmatch(host) is None:
        raise ConfigError("bootstrap.servers", shown, "must be host:port with a port from 1 to 65535")
    try:
        host.encode("idna")
    except UnicodeError as error:
        reason = f"the host name is invalid ({error})"
        raise ConfigError("bootstrap.servers", shown, reason) from None
    return host, port


def check_bootstrap(servers: tuple[str, ...]) -> None:
    if not servers:
        raise ConfigError("bootstrap.servers", "", "is required: host:port of at least one broker")
    for address in servers:
        host_and_port(address)


def check_tls(
    *,
    truststore_location: str | None,
    keystore_location: str | None,
    certificate_chain: str | None,
    private_key: str | None,
    protocols: tuple[str, ...],
) -> None:
    if certificate_chain is not None and private_key is None:
        raise ConfigError("ssl.keystore.certificate.chain", HIDDEN, "requires ssl.keystore.key")
    for key, value in (("ssl.truststore.location", truststore_location), ("ssl.keystore.location", keystore_location)):
        if value is not None and value.lower().endswith((".jks", ".p12", ".pfx")):
            raise ConfigError(key, value, "must be a PEM file; keytool and openssl convert Java's key stores")
    if set(protocols) - {"TLSv1.2", "TLSv1.3"} or not protocols:
        raise ConfigError("ssl.enabled.protocols", ",".join(protocols), "may only contain TLSv1.2 and TLSv1.3")


def check_sasl(
    security_protocol: str, mechanism: str | None, username: str | None, password: str | None, jaas: str | None
) -> None:
    if not security_protocol.startswith("SASL"):
        return
    if mechanism is None:
        raise ConfigError("sasl.mechanism", "", f"is required with {security_protocol}: {', '.join(MECHANISMS)}")
    if mechanism not in MECHANISMS:
        raise ConfigError("sasl.mechanism", mechanism, f"must be one of {', '.join(MECHANISMS)}")
    if jaas is not None:
        if username is not None or password is not None:
            raise ConfigError(
                "sasl.jaas.config", HIDDEN, "conflicts with sasl.username and sasl.password: set only one of the two"
            )
        username, password = read_jaas(jaas)
    if not username:
        raise ConfigError("sasl.username", username, f"is required with {mechanism}")
    if password is None:
        raise ConfigError("sasl.password", None, f"is required with {mechanism}")


def check_group(protocol: str, group_id: str | None, instance_id: str | None) -> None:
    if protocol == "consumer":
        reason = "the consumer group protocol (KIP-848) is not supported yet; omit the key or set it to classic"
        raise ConfigError("group.protocol", "consumer", reason)
    if group_id == "":
        raise ConfigError("group.id", "", "must not be empty; omit it for a consumer without a group")
    if instance_id == "":
        raise ConfigError("group.instance.id", "", "must not be empty; omit it for a dynamic member")
    if instance_id is not None and group_id is None:
        raise ConfigError("group.instance.id", instance_id, "requires a group.id")


def check_heartbeat(interval_ms: int, session_timeout_ms: int) -> None:
    if interval_ms >= session_timeout_ms:
        reason = f"must be below session.timeout.ms={session_timeout_ms}, or the session expires between heartbeats"
        raise ConfigError("heartbeat.interval.ms", interval_ms, reason)


def check_reset_policy(policy: str) -> None:
    if policy not in ("earliest", "latest", "none") and not _DURATION.match(policy):
        reason = "must be earliest, latest, none, or by_duration:D, where D is a duration >= 0 such as PT1H"
        raise ConfigError("auto.offset.reset", policy, reason)


def auto_commit_that_holds(is_enabled: bool, *, has_group: bool, is_given: bool) -> bool:
    """Without a group there is nothing to commit to: the default turns off, an explicit wish is refused."""
    if is_enabled and is_given and not has_group:
        raise ConfigError("enable.auto.commit", True, "requires a group.id to commit to")
    return is_enabled and has_group


def check_acks(key: str, value: Any) -> int:
    """Who acknowledges: "all" and -1 are the same."""
    word = str(value).strip().lower()
    if isinstance(value, bool) or word not in ("all", "-1", "0", "1"):
        raise ConfigError(key, value, "must be all, -1, 0 or 1")
    return -1 if word == "all" else int(word)


def check_transactions(transactional_id: str | None) -> None:
    if transactional_id is not None:
        raise ConfigError("transactional.id", transactional_id, "transactions are not supported by this producer")


def idempotence_that_holds(is_enabled: bool, *, acks: int, retries: int, in_flight: int, is_given: bool) -> bool:
    """Idempotence needs all replicas' acknowledgement, retries and few requests in flight.

    As in Kafka, a conflicting key turns the default off, and is an error where idempotence was asked for.
    """
    if not is_enabled:
        return False
    conflicts = (
        ("acks", acks, acks != -1, "must be all when enable.idempotence=true"),
        ("retries", retries, retries == 0, "must be greater than 0 when enable.idempotence=true"),
        (
            "max.in.flight.requests.per.connection",
            in_flight,
            in_flight > 5,
            "must be at most 5 when enable.idempotence=true",
        ),
    )
    for key, value, conflicting, reason in conflicts:
        # More than five in flight is refused even by default: it would silently give up ordering.
        if conflicting and (is_given or key.startswith("max")):
            raise ConfigError(key, value, reason)
        if conflicting:
            return False
    return True


def delivery_timeout_that_holds(
    delivery_timeout_ms: int, *, linger_ms: int, request_timeout_ms: int, is_given: bool
) -> int:
    """A record's whole time must cover waiting for its batch and one request."""
    least = min(linger_ms + request_timeout_ms, 2**31 - 1)
    if delivery_timeout_ms < least and is_given:
        reason = f"must be at least linger.ms + request.timeout.ms = {least}"
        raise ConfigError("delivery.timeout.ms", delivery_timeout_ms, reason)
    return max(delivery_timeout_ms, least)

"""What configuration keys must be together: one function per rule, each naming the key that is wrong.

They run after every key was read on its own, so a combination is refused when the client is made and not when the first
request fails. A rule that must change a value gives a changed copy.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.addresses import parse_address
from seamark.client.config.credentials import MECHANISMS, read_jaas
from seamark.errors import HIDDEN, ConfigError

if TYPE_CHECKING:
    from seamark.client.config.config import ClientConfig, ConsumerConfig, ProducerConfig

Consumer = TypeVar("Consumer", bound="ConsumerConfig")
Producer = TypeVar("Producer", bound="ProducerConfig")

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
        raise ConfigError("bootstrap.servers", shown, "must be host:port, the port from 1 to 65535")
    try:
        host.encode("idna")
    except UnicodeError as error:
        reason = f"the host is no name that can be looked up ({error})"
        raise ConfigError("bootstrap.servers", shown, reason) from None
    return host, port


def check_bootstrap(config: ClientConfig) -> None:
    if not config.bootstrap_servers:
        raise ConfigError("bootstrap.servers", "", "is needed: host:port of at least one broker")
    for address in config.bootstrap_servers:
        host_and_port(address)


def check_security(config: ClientConfig) -> None:
    if config.security_protocol.startswith("SASL"):
        _check_sasl(config)
    if config.ssl_keystore_certificate_chain is not None and config.ssl_keystore_key is None:
        raise ConfigError("ssl.keystore.certificate.chain", HIDDEN, "needs ssl.keystore.key")
    for key, value in (
        ("ssl.truststore.location", config.ssl_truststore_location),
        ("ssl.keystore.location", config.ssl_keystore_location),
    ):
        if value is not None and value.lower().endswith((".jks", ".p12", ".pfx")):
            raise ConfigError(key, value, "must be a PEM file; keytool and openssl convert Java's key stores")
    unknown = set(config.ssl_enabled_protocols) - {"TLSv1.2", "TLSv1.3"}
    if unknown or not config.ssl_enabled_protocols:
        raise ConfigError("ssl.enabled.protocols", ",".join(config.ssl_enabled_protocols), "may hold TLSv1.2, TLSv1.3")


def _check_sasl(config: ClientConfig) -> None:
    mechanism = config.sasl_mechanism
    if mechanism is None:
        raise ConfigError("sasl.mechanism", "", f"is needed with {config.security_protocol}: {', '.join(MECHANISMS)}")
    if mechanism not in MECHANISMS:
        raise ConfigError("sasl.mechanism", mechanism, f"must be one of {', '.join(MECHANISMS)}")
    username, password = config.sasl_username, config.sasl_password
    if config.sasl_jaas_config is not None:
        if username is not None or password is not None:
            raise ConfigError("sasl.jaas.config", HIDDEN, "repeats sasl.username and sasl.password; give one form")
        username, password = read_jaas(config.sasl_jaas_config)
    if not username:
        raise ConfigError("sasl.username", username, f"is needed with {mechanism}")
    if password is None:
        raise ConfigError("sasl.password", None, f"is needed with {mechanism}")


def check_group_protocol(config: ConsumerConfig) -> None:
    if config.group_protocol == "consumer":
        reason = "the newer group protocol is not offered yet; leave the key out or set it to classic"
        raise ConfigError("group.protocol", "consumer", reason)
    if config.group_id == "":
        raise ConfigError("group.id", "", "must not be empty; leave it out for a consumer without a group")
    if config.group_instance_id == "":
        raise ConfigError("group.instance.id", "", "must not be empty; leave it out for a dynamic member")
    if config.group_instance_id is not None and config.group_id is None:
        raise ConfigError("group.instance.id", config.group_instance_id, "needs a group.id")


def check_heartbeat(config: ConsumerConfig) -> None:
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        reason = f"must be below session.timeout.ms={config.session_timeout_ms}, or the session ends between heartbeats"
        raise ConfigError("heartbeat.interval.ms", config.heartbeat_interval_ms, reason)


def check_reset_policy(config: ConsumerConfig) -> None:
    policy = config.auto_offset_reset
    if policy not in ("earliest", "latest", "none") and not _DURATION.match(policy):
        reason = "must be earliest, latest, none, or by_duration: and a duration such as PT1H that is not negative"
        raise ConfigError("auto.offset.reset", policy, reason)


def check_auto_commit(config: Consumer, given: frozenset[str]) -> Consumer:
    """Without a group there is nothing to commit to: the default turns off, an explicit wish is refused."""
    if config.group_id is not None or not config.enable_auto_commit:
        return config
    if "enable_auto_commit" in given:
        raise ConfigError("enable.auto.commit", True, "needs a group.id to commit to")
    return replace(config, enable_auto_commit=False)


def check_offset_storage(config: Consumer, given: frozenset[str]) -> Consumer:
    """Who names a ZooKeeper means the old defaults: offsets there, or in both while they move to Kafka (G7)."""
    if config.zookeeper_connect is None:
        return config
    storage = config.offsets_storage if "offsets_storage" in given else "zookeeper"
    is_dual = config.dual_commit_enabled if "dual_commit_enabled" in given else storage == "kafka"
    return replace(config, offsets_storage=storage, dual_commit_enabled=is_dual)


def check_acks(key: str, value: Any) -> int:
    """Who acknowledges: "all" and -1 are the same."""
    word = str(value).strip().lower()
    if isinstance(value, bool) or word not in ("all", "-1", "0", "1"):
        raise ConfigError(key, value, "must be all, -1, 0 or 1")
    return -1 if word == "all" else int(word)


def check_transactions(config: ProducerConfig) -> None:
    if config.transactional_id is not None:
        raise ConfigError("transactional.id", config.transactional_id, "transactions are not offered by this producer")


def check_idempotence(config: Producer, given: frozenset[str]) -> Producer:
    """Idempotence needs all replicas' acknowledgement, retries and few requests in flight.

    As in Kafka, a conflicting key turns the default off, and is an error where idempotence was asked for.
    """
    if not config.enable_idempotence:
        return config
    conflicts = (
        ("acks", config.acks, config.acks != -1, "must be all for enable.idempotence=true"),
        ("retries", config.retries, config.retries == 0, "must be above 0 for enable.idempotence=true"),
        (
            "max.in.flight.requests.per.connection",
            config.max_in_flight_requests_per_connection,
            config.max_in_flight_requests_per_connection > 5,
            "must be at most 5 for enable.idempotence=true",
        ),
    )
    for key, value, conflicting, reason in conflicts:
        # More than five in flight is refused even by default: it would silently give up ordering.
        if conflicting and ("enable_idempotence" in given or key.startswith("max")):
            raise ConfigError(key, value, reason)
        if conflicting:
            return replace(config, enable_idempotence=False)
    return config


def check_delivery_time(config: Producer, given: frozenset[str]) -> Producer:
    """A record's whole time must cover waiting for its batch and one request."""
    least = min(config.linger_ms + config.request_timeout_ms, 2**31 - 1)
    if config.delivery_timeout_ms >= least:
        return config
    if "delivery_timeout_ms" in given:
        reason = f"must be at least linger.ms + request.timeout.ms = {least}"
        raise ConfigError("delivery.timeout.ms", config.delivery_timeout_ms, reason)
    return replace(config, delivery_timeout_ms=least)

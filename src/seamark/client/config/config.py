"""Configuration by Kafka's own key names: one frozen object per client kind, its table being the fields themselves.

A field's name is the key with underscores for dots; its metadata (``config_keys.key``) holds the rule and the sentence
that documents it. ``from_options`` reads a mapping of Kafka keys together with keywords, and refuses what it does not
know with a suggestion. Values may be texts, as in a properties file.

    >>> ConsumerConfig.from_options({"bootstrap.servers": "a:9092,b:9092"}, {"group_id": "g"}).bootstrap_servers
    ('a:9092', 'b:9092')

Invariant: an object that exists has been checked as a whole. Secrets are never in its ``repr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from seamark.client.config.checks import (
    auto_commit_that_holds,
    check_acks,
    check_bootstrap,
    check_group,
    check_heartbeat,
    check_reset_policy,
    check_sasl,
    check_tls,
    check_transactions,
    delivery_timeout_that_holds,
    idempotence_that_holds,
)
from seamark.client.config.credentials import Credentials, read_jaas
from seamark.client.config.keys import (
    boolean,
    choice,
    integer,
    names,
    objects,
    option,
    read_options,
    secret,
    shown,
    text,
)

_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_INT = 2**31 - 1
_LONG = 2**63 - 1


@dataclass(frozen=True, kw_only=True, repr=False)
class ClientConfig:
    """What every client has: where the brokers are, how to talk to them, who we are."""

    bootstrap_servers: tuple[str, ...] = names((), "host:port of brokers to start from; any that answers will do")
    client_id: str = text("", "shown in the brokers' logs and quotas")
    client_dns_lookup: str = choice(
        "use_all_dns_ips",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "whether a bootstrap name stands for one broker with many addresses or for many brokers",
    )
    metadata_max_age_ms: int = integer(300_000, "refresh what is known of topics and leaders at least this often", 0)
    metadata_recovery_strategy: str = choice(
        "rebootstrap", ("rebootstrap", "none"), "whether to start from bootstrap.servers again when no broker is left"
    )
    metadata_recovery_rebootstrap_trigger_ms: int = integer(
        300_000, "start from bootstrap.servers again when metadata could not be had for so long", 0
    )
    send_buffer_bytes: int = integer(-1, "the socket's send buffer; -1 lets the system tune it", -1, _INT)
    receive_buffer_bytes: int = integer(-1, "the socket's receive buffer; -1 lets the system tune it", -1, _INT)
    request_timeout_ms: int = integer(30_000, "a broker that has not answered by then is disconnected", 1, _INT)
    default_api_timeout_ms: int = integer(60_000, "how long a call may take that names no timeout itself", 0, _INT)
    reconnect_backoff_ms: int = integer(50, "wait before the second try to connect to a broker, doubled each time", 0)
    reconnect_backoff_max_ms: int = integer(1_000, "the longest wait between tries to connect", 0)
    retry_backoff_ms: int = integer(100, "wait before a request is retried, doubled each time", 0)
    retry_backoff_max_ms: int = integer(1_000, "the longest wait before a retry", 0)
    socket_connection_setup_timeout_ms: int = integer(10_000, "give up a connection that is not made by then", 1)
    socket_connection_setup_timeout_max_ms: int = integer(30_000, "what that time grows to with each failure", 1)
    connections_max_idle_ms: int = integer(540_000, "close connections unused for so long; -1 never", -1)
    security_protocol: str = choice("PLAINTEXT", _SECURITY_PROTOCOLS, "how the brokers' listener is secured")
    ssl_truststore_location: str | None = option(None, "file with the PEM certificates of the authorities to trust")
    ssl_truststore_certificates: str | None = secret("the same as text")
    ssl_truststore_type: str = choice("PEM", ("PEM",), "the only format read here")
    ssl_truststore_password: str | None = secret("not needed for PEM")
    ssl_keystore_location: str | None = option(None, "file with our PEM certificate chain and private key")
    ssl_keystore_certificate_chain: str | None = secret("our certificate chain as PEM text")
    ssl_keystore_key: str | None = secret("our private key as PEM text")
    ssl_keystore_type: str = choice("PEM", ("PEM",), "the only format read here")
    ssl_keystore_password: str | None = secret("password of the private key in ssl.keystore.location")
    ssl_key_password: str | None = secret("password of the private key")
    ssl_endpoint_identification_algorithm: str = choice(
        "https", ("https", ""), "https checks that the certificate is that of the host; empty does not"
    )
    ssl_enabled_protocols: tuple[str, ...] = names(("TLSv1.2", "TLSv1.3"), "the TLS versions to accept")
    ssl_cipher_suites: tuple[str, ...] = names((), "OpenSSL names of the ciphers to allow; empty means its defaults")
    sasl_mechanism: str | None = option(None, "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    sasl_username: str | None = option(None, "who we are (sasl.jaas.config can say it too)")
    sasl_password: str | None = secret("what only we know (sasl.jaas.config can say it too)")
    sasl_jaas_config: str | None = secret("Kafka's form of username and password")

    @classmethod
    def from_options(cls, config: Mapping[str, Any] | None = None, keywords: Mapping[str, Any] | None = None) -> Self:
        """Read Kafka keys and keywords; ConfigError names the first key that is wrong, and why."""
        given = read_options(cls, config or {}, keywords or {})
        made = cls(**given)
        return made._settled(frozenset(given))

    def _settled(self, given: frozenset[str]) -> Self:  # noqa: ARG002
        """Check the keys against each other; ``given`` are the ones that the user wrote."""
        check_bootstrap(self.bootstrap_servers)
        check_sasl(
            self.security_protocol, self.sasl_mechanism, self.sasl_username, self.sasl_password, self.sasl_jaas_config
        )
        check_tls(
            truststore_location=self.ssl_truststore_location,
            keystore_location=self.ssl_keystore_location,
            certificate_chain=self.ssl_keystore_certificate_chain,
            private_key=self.ssl_keystore_key,
            protocols=self.ssl_enabled_protocols,
        )
        return self

    @property
    def credentials(self) -> Credentials | None:
        """What to authenticate with, or None where the listener does not ask."""
        if not self.security_protocol.startswith("SASL"):
            return None
        username, password = self.sasl_username, self.sasl_password
        if self.sasl_jaas_config is not None:
            username, password = read_jaas(self.sasl_jaas_config)
        assert self.sasl_mechanism is not None
        return Credentials(self.sasl_mechanism, username or "", password or "")

    def as_keys(self) -> dict[str, Any]:
        """Every key with its value, secrets hidden: what may be logged and shown."""
        return {name.replace("_", "."): value for name, value in shown(self).items()}

    def __repr__(self) -> str:
        defaults = {f.name: f.default for f in fields(self)}
        changed = {name: value for name, value in shown(self).items() if getattr(self, name) != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


@dataclass(frozen=True, kw_only=True, repr=False)
class AdminConfig(ClientConfig):
    """What an admin client has beside that."""

    retries: int = integer(_INT, "how often a request is tried again within its timeout", 0, _INT)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConsumerConfig(ClientConfig):
    """What a consumer has beside that."""

    group_id: str | None = option(None, "the group whose members share the partitions and whose offsets are committed")
    group_instance_id: str | None = option(None, "a fixed identity: a restart within the session keeps the partitions")
    group_protocol: str = choice("classic", ("classic", "consumer"), "how the group is coordinated")
    client_rack: str = text("", "where we are; brokers and assignors prefer replicas near it")
    session_timeout_ms: int = integer(45_000, "a member that sent no heartbeat for so long is removed", 1, _INT)
    heartbeat_interval_ms: int = integer(3_000, "time between heartbeats; a third of the session or less", 1, _INT)
    max_poll_interval_ms: int = integer(300_000, "a member that does not poll for so long leaves by itself", 1, _INT)
    max_poll_records: int = integer(500, "the most records that one poll gives", 1, _INT)
    partition_assignment_strategy: tuple[Any, ...] = objects(
        ("range", "cooperative-sticky"), "assignors in order of preference: names, classes or instances"
    )
    enable_auto_commit: bool = boolean(True, "commit positions by itself, at the first poll after the interval")
    auto_commit_interval_ms: int = integer(5_000, "the least time between automatic commits", 0, _INT)
    auto_offset_reset: str = text("latest", "where to start without a committed offset: see positions")
    isolation_level: str = choice(
        "read_uncommitted", ("read_uncommitted", "read_committed"), "whether records of open transactions are given"
    )
    fetch_min_bytes: int = integer(1, "the broker waits until it has so much", 0, _INT)
    fetch_max_bytes: int = integer(52_428_800, "the most that one fetch asks for", 0, _INT)
    fetch_max_wait_ms: int = integer(500, "how long the broker may wait for fetch.min.bytes", 0, _INT)
    max_partition_fetch_bytes: int = integer(1_048_576, "the most that one fetch asks of one partition", 0, _INT)
    prefetch_max_bytes: int = integer(67_108_864, "bytes fetched and not yet polled are kept below this", 0, _LONG)
    max_poll_bytes: int = integer(
        67_108_864,
        "a poll begins no further part of a batch when its records unfold to so much; it may hold one part more",
        1,
        _LONG,
    )
    decoded_batch_max_bytes: int = integer(
        134_217_728, "the most that a compressed batch may unfold to; a larger one is not read", 1_048_576, _INT
    )
    record_max_headers: int = integer(
        10_000, "the most headers that a record may have; a batch with one that has more is not read", 1_000, _INT
    )
    check_crcs: bool = boolean(True, "verify the checksum of every batch")
    allow_auto_create_topics: bool = boolean(True, "let the broker create a topic that is subscribed or assigned")
    exclude_internal_topics: bool = boolean(True, "keep internal topics out of pattern subscriptions")
    offsets_storage: str = choice(
        "kafka", ("kafka", "zookeeper"), "where offsets are committed; zookeeper by default with zookeeper.connect"
    )
    dual_commit_enabled: bool = boolean(
        False, "commit to both and read the larger; true by default with zookeeper.connect and offsets.storage=kafka"
    )
    zookeeper_connect: str | None = option(
        None, "host:port,host:port/chroot; without it brokers are asked in version 0"
    )
    offsets_commit_max_retries: int = integer(5, "how often a commit to ZooKeeper is tried again", 0, _INT)
    offsets_channel_backoff_ms: int = integer(1_000, "wait before it is tried again", 0, _INT)
    offsets_channel_socket_timeout_ms: int = integer(10_000, "how long ZooKeeper may take", 1, _INT)

    def _settled(self, given: frozenset[str]) -> Self:
        super()._settled(given)
        check_group(self.group_protocol, self.group_id, self.group_instance_id)
        check_heartbeat(self.heartbeat_interval_ms, self.session_timeout_ms)
        check_reset_policy(self.auto_offset_reset)
        storage, is_dual = self._offset_storage(given)
        return replace(
            self,
            enable_auto_commit=auto_commit_that_holds(
                self.enable_auto_commit, has_group=self.group_id is not None, is_given="enable_auto_commit" in given
            ),
            offsets_storage=storage,
            dual_commit_enabled=is_dual,
        )

    def _offset_storage(self, given: frozenset[str]) -> tuple[str, bool]:
        """Who names a ZooKeeper means the old defaults: offsets there, or in both while they move to Kafka (G7)."""
        if self.zookeeper_connect is None:
            return self.offsets_storage, self.dual_commit_enabled
        storage = self.offsets_storage if "offsets_storage" in given else "zookeeper"
        return storage, self.dual_commit_enabled if "dual_commit_enabled" in given else storage == "kafka"


@dataclass(frozen=True, kw_only=True, repr=False)
class ProducerConfig(ClientConfig):
    """What a producer has beside that."""

    acks: int = option(-1, "all (-1), 1 or 0: who must have the records before they count as sent", check_acks)
    enable_idempotence: bool = boolean(True, "a retried batch is stored once, and in order")
    transactional_id: str | None = option(None, "transactions are not offered")
    batch_size: int = integer(16_384, "bytes of records for one partition that are sent together", 0, _INT)
    linger_ms: int = integer(5, "how long a batch waits for more records", 0)
    buffer_memory: int = integer(33_554_432, "bytes of records that may wait; above it send blocks", 0)
    max_block_ms: int = integer(60_000, "how long send may block for memory or metadata", 0)
    max_request_size: int = integer(
        1_048_576, "the largest request, and the largest record before compression", 0, _INT
    )
    delivery_timeout_ms: int = integer(120_000, "a record not acknowledged by then has failed", 0, _INT)
    retries: int = integer(_INT, "how often a batch is tried again within delivery.timeout.ms", 0, _INT)
    max_in_flight_requests_per_connection: int = integer(5, "requests that may wait for a broker's answer", 1, _INT)
    compression_type: str = choice("none", ("none", "gzip", "snappy", "lz4", "zstd"), "how batches are compressed")
    compression_gzip_level: int = integer(-1, "-1 is gzip's own choice", -1, 9)
    compression_lz4_level: int = integer(9, "1 to 17", 1, 17)
    compression_zstd_level: int = integer(3, "1 to 22", -131_072, 22)
    partitioner_class: object | None = option(
        None, "a Partitioner, its class or its dotted name, in place of the built-in logic"
    )
    partitioner_ignore_keys: bool = boolean(False, "spread records without looking at their keys")
    partitioner_adaptive_partitioning_enable: bool = boolean(True, "send more to partitions with shorter queues")
    partitioner_availability_timeout_ms: int = integer(
        0, "avoid partitions whose broker is stuck for so long; 0 off", 0
    )
    metadata_max_idle_ms: int = integer(300_000, "forget topics that were not written to for so long", 5_000)

    def _settled(self, given: frozenset[str]) -> Self:
        super()._settled(given)
        check_transactions(self.transactional_id)
        return replace(
            self,
            enable_idempotence=idempotence_that_holds(
                self.enable_idempotence,
                acks=self.acks,
                retries=self.retries,
                in_flight=self.max_in_flight_requests_per_connection,
                is_given="enable_idempotence" in given,
            ),
            delivery_timeout_ms=delivery_timeout_that_holds(
                self.delivery_timeout_ms,
                linger_ms=self.linger_ms,
                request_timeout_ms=self.request_timeout_ms,
                is_given="delivery_timeout_ms" in given,
            ),
        )

    @property
    def compression_level(self) -> int | None:
        """Of the codec that is used; None for its own choice."""
        if self.compression_type == "gzip" and self.compression_gzip_level >= 0:
            return self.compression_gzip_level
        return self.compression_zstd_level if self.compression_type == "zstd" else None

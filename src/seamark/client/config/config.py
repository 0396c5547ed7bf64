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

    bootstrap_servers: tuple[str, ...] = names(
        (), "host:port of brokers to connect to first; one that responds is enough"
    )
    client_id: str = text("", "shown in the brokers' logs and quotas")
    client_dns_lookup: str = choice(
        "use_all_dns_ips",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "whether a bootstrap name is one broker with several addresses or several brokers",
    )
    metadata_max_age_ms: int = integer(300_000, "maximum age of metadata about topics and leaders", 0)
    metadata_recovery_strategy: str = choice(
        "rebootstrap",
        ("rebootstrap", "none"),
        "whether to connect to bootstrap.servers again when no known broker is reachable",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = integer(
        300_000, "connect to bootstrap.servers again when no metadata was received for this long", 0
    )
    send_buffer_bytes: int = integer(-1, "size of the socket's send buffer; -1 leaves it to the system", -1, _INT)
    receive_buffer_bytes: int = integer(-1, "size of the socket's receive buffer; -1 leaves it to the system", -1, _INT)
    request_timeout_ms: int = integer(
        30_000, "maximum time to wait for a response; then the broker is disconnected", 1, _INT
    )
    default_api_timeout_ms: int = integer(60_000, "timeout of calls that are given none", 0, _INT)
    reconnect_backoff_ms: int = integer(50, "wait before connecting to a broker again, doubled each time", 0)
    reconnect_backoff_max_ms: int = integer(1_000, "maximum wait before connecting again", 0)
    retry_backoff_ms: int = integer(100, "wait before a request is retried, doubled each time", 0)
    retry_backoff_max_ms: int = integer(1_000, "maximum wait before a retry", 0)
    socket_connection_setup_timeout_ms: int = integer(10_000, "maximum time to set up a connection", 1)
    socket_connection_setup_timeout_max_ms: int = integer(30_000, "maximum that this time grows to after failures", 1)
    connections_max_idle_ms: int = integer(540_000, "close connections that are idle for this long; -1 never", -1)
    security_protocol: str = choice("PLAINTEXT", _SECURITY_PROTOCOLS, "security protocol of the brokers' listener")
    ssl_truststore_location: str | None = option(None, "file with the PEM certificates of trusted authorities")
    ssl_truststore_certificates: str | None = secret("PEM certificates of trusted authorities, as text")
    ssl_truststore_type: str = choice("PEM", ("PEM",), "only PEM is supported")
    ssl_truststore_password: str | None = secret("not used: PEM certificates have no password")
    ssl_keystore_location: str | None = option(None, "file with the client's PEM certificate chain and private key")
    ssl_keystore_certificate_chain: str | None = secret("the client's certificate chain as PEM text")
    ssl_keystore_key: str | None = secret("the client's private key as PEM text")
    ssl_keystore_type: str = choice("PEM", ("PEM",), "only PEM is supported")
    ssl_keystore_password: str | None = secret("password of the private key in ssl.keystore.location")
    ssl_key_password: str | None = secret("password of the private key")
    ssl_endpoint_identification_algorithm: str = choice(
        "https", ("https", ""), "https verifies the broker's host name against its certificate; empty does not"
    )
    ssl_enabled_protocols: tuple[str, ...] = names(("TLSv1.2", "TLSv1.3"), "the TLS versions to accept")
    ssl_cipher_suites: tuple[str, ...] = names((), "OpenSSL names of the ciphers to allow; empty means its defaults")
    sasl_mechanism: str | None = option(None, "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    sasl_username: str | None = option(None, "user name (or use sasl.jaas.config)")
    sasl_password: str | None = secret("password (or use sasl.jaas.config)")
    sasl_jaas_config: str | None = secret("user name and password in the form of Java clients")

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

    retries: int = integer(_INT, "maximum number of retries of a request within its timeout", 0, _INT)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConsumerConfig(ClientConfig):
    """What a consumer has beside that."""

    group_id: str | None = option(None, "consumer group to join and to commit offsets for")
    group_instance_id: str | None = option(
        None, "id of a static member: a restart within the session timeout keeps the partitions"
    )
    group_protocol: str = choice("classic", ("classic", "consumer"), "group protocol; only classic is supported")
    client_rack: str = text("", "rack of this client; brokers and assignors prefer replicas in it")
    session_timeout_ms: int = integer(
        45_000, "a member without a heartbeat for this long is removed from the group", 1, _INT
    )
    heartbeat_interval_ms: int = integer(
        3_000, "time between heartbeats; at most a third of session.timeout.ms is advised", 1, _INT
    )
    max_poll_interval_ms: int = integer(300_000, "a member that does not poll for this long leaves the group", 1, _INT)
    max_poll_records: int = integer(500, "maximum number of records that a poll returns", 1, _INT)
    partition_assignment_strategy: tuple[Any, ...] = objects(
        ("range", "cooperative-sticky"), "assignors in order of preference: names, classes or instances"
    )
    enable_auto_commit: bool = boolean(True, "commit positions automatically, at the first poll after the interval")
    auto_commit_interval_ms: int = integer(5_000, "minimum time between automatic commits", 0, _INT)
    auto_offset_reset: str = text(
        "latest", "where to start without a valid committed offset: earliest, latest, none, by_duration:PT1H"
    )
    isolation_level: str = choice(
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        "read_committed leaves out records of open and aborted transactions",
    )
    fetch_min_bytes: int = integer(1, "minimum size of a fetch response; the broker waits for it", 0, _INT)
    fetch_max_bytes: int = integer(52_428_800, "maximum size of a fetch response", 0, _INT)
    fetch_max_wait_ms: int = integer(500, "maximum time that the broker waits for fetch.min.bytes", 0, _INT)
    max_partition_fetch_bytes: int = integer(1_048_576, "maximum size per partition in a fetch response", 0, _INT)
    prefetch_max_bytes: int = integer(67_108_864, "limit on bytes that are fetched and not yet polled", 0, _LONG)
    max_poll_bytes: int = integer(
        67_108_864,
        "a poll decodes no further part of a batch once its records take this much memory; it may exceed this "
        "by one part",
        1,
        _LONG,
    )
    decoded_batch_max_bytes: int = integer(
        134_217_728, "maximum decompressed size of a batch; a larger batch is not read", 1_048_576, _INT
    )
    record_max_headers: int = integer(
        10_000, "maximum number of headers of a record; a batch with a record over it is not read", 1_000, _INT
    )
    check_crcs: bool = boolean(True, "verify the checksum of every batch")
    allow_auto_create_topics: bool = boolean(True, "let the broker create topics that are subscribed to or assigned")
    exclude_internal_topics: bool = boolean(True, "exclude internal topics from pattern subscriptions")
    offsets_storage: str = choice(
        "kafka",
        ("kafka", "zookeeper"),
        "where offsets are committed; the default is zookeeper if zookeeper.connect is set",
    )
    dual_commit_enabled: bool = boolean(
        False,
        "commit to both and read the larger offset; the default is true if zookeeper.connect is set and "
        "offsets.storage=kafka",
    )
    zookeeper_connect: str | None = option(
        None, "host:port,host:port/chroot; without it, brokers are sent requests in version 0"
    )
    offsets_commit_max_retries: int = integer(5, "maximum number of retries of a commit to ZooKeeper", 0, _INT)
    offsets_channel_backoff_ms: int = integer(1_000, "wait before such a retry", 0, _INT)
    offsets_channel_socket_timeout_ms: int = integer(10_000, "timeout of requests to ZooKeeper", 1, _INT)

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

    acks: int = option(-1, "all (-1), 1 or 0: which replicas must have stored the records", check_acks)
    enable_idempotence: bool = boolean(True, "retried batches are stored exactly once and in order")
    transactional_id: str | None = option(None, "transactions are not supported")
    batch_size: int = integer(16_384, "maximum size of a batch of records for one partition", 0, _INT)
    linger_ms: int = integer(5, "how long a batch waits for further records", 0)
    buffer_memory: int = integer(33_554_432, "bytes of records that may wait to be sent; send blocks above it", 0)
    max_block_ms: int = integer(60_000, "maximum time that send blocks for memory or metadata", 0)
    max_request_size: int = integer(1_048_576, "maximum size of a request, and of a record before compression", 0, _INT)
    delivery_timeout_ms: int = integer(
        120_000, "maximum time until a record is acknowledged; then it has failed", 0, _INT
    )
    retries: int = integer(_INT, "maximum number of retries of a batch within delivery.timeout.ms", 0, _INT)
    max_in_flight_requests_per_connection: int = integer(
        5, "maximum number of unacknowledged requests per broker", 1, _INT
    )
    compression_type: str = choice("none", ("none", "gzip", "snappy", "lz4", "zstd"), "compression codec of batches")
    compression_gzip_level: int = integer(-1, "gzip level; -1 is gzip's default", -1, 9)
    compression_lz4_level: int = integer(9, "lz4 level, 1 to 17", 1, 17)
    compression_zstd_level: int = integer(3, "zstd level, 1 to 22", -131_072, 22)
    partitioner_class: object | None = option(
        None, "a Partitioner, its class or its dotted name, instead of the built-in partitioner"
    )
    partitioner_ignore_keys: bool = boolean(False, "ignore keys when choosing partitions")
    partitioner_adaptive_partitioning_enable: bool = boolean(
        True, "send more records to partitions with shorter queues"
    )
    partitioner_availability_timeout_ms: int = integer(
        0, "avoid partitions whose broker has not accepted a batch for this long; 0 turns it off", 0
    )
    metadata_max_idle_ms: int = integer(
        300_000, "forget the metadata of topics that were not written to for this long", 5_000
    )

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

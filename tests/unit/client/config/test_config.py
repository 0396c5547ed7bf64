"""Configuration: Kafka's names, types and defaults; what is wrong is said when the client is made."""

import pickle
from dataclasses import fields

import pytest

from seamark.client.config.aliases import RENAMED, UNSUPPORTED
from seamark.client.config.config import AdminConfig, ConsumerConfig, ProducerConfig
from seamark.errors import ConfigError

BOOTSTRAP = {"bootstrap.servers": "a:9092"}
SASL = {**BOOTSTRAP, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}


def consumer(**keywords):
    return ConsumerConfig.from_options(BOOTSTRAP, keywords)


def producer(**keywords):
    return ProducerConfig.from_options(BOOTSTRAP, keywords)


def refusal(config_class, options, keywords=None):
    with pytest.raises(ConfigError) as caught:
        config_class.from_options(options, keywords or {})
    return caught.value


# covers: I5, K8, J5, J7, I28, I30, J3
@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (consumer(group_id="g"), "enable_auto_commit", True),
        (consumer(), "auto_commit_interval_ms", 5000),
        (consumer(), "auto_offset_reset", "latest"),
        (consumer(), "fetch_max_wait_ms", 500),
        (consumer(), "fetch_min_bytes", 1),
        (consumer(), "fetch_max_bytes", 52428800),
        (consumer(), "max_partition_fetch_bytes", 1048576),
        (consumer(), "isolation_level", "read_uncommitted"),
        (consumer(), "client_rack", ""),
        (consumer(), "session_timeout_ms", 45000),
        (consumer(), "heartbeat_interval_ms", 3000),
        (consumer(), "max_poll_interval_ms", 300000),
        (consumer(), "default_api_timeout_ms", 60000),
        (consumer(), "request_timeout_ms", 30000),
        (consumer(), "metadata_max_age_ms", 300000),
        (consumer(), "retry_backoff_ms", 100),
        (consumer(), "retry_backoff_max_ms", 1000),
        (consumer(), "group_instance_id", None),
        (consumer(), "reconnect_backoff_ms", 50),
        (consumer(), "reconnect_backoff_max_ms", 1000),
        (consumer(), "partition_assignment_strategy", ("range", "cooperative-sticky")),
        (producer(), "batch_size", 16384),
        (producer(), "acks", -1),
        (producer(), "linger_ms", 5),
        (producer(), "enable_idempotence", True),
        (producer(), "delivery_timeout_ms", 120000),
        (producer(), "partitioner_class", None),
        (producer(), "partitioner_ignore_keys", False),
        (producer(), "partitioner_adaptive_partitioning_enable", True),
    ],
)
def test_defaults_are_kafkas(config, key, value):
    assert getattr(config, key) == value


def test_keys_of_a_mapping_and_keywords_are_the_same_keys():
    written = ConsumerConfig.from_options({"bootstrap.servers": "a:1, b:2", "group.id": "g", "max.poll.records": "7"})
    spoken = ConsumerConfig.from_options(
        None, {"bootstrap_servers": ["a:1", "b:2"], "group_id": "g", "max_poll_records": 7}
    )
    assert written == spoken
    assert written.bootstrap_servers == ("a:1", "b:2")


def test_a_key_given_both_ways_is_refused():
    error = refusal(ConsumerConfig, {**BOOTSTRAP, "group.id": "g"}, {"group_id": "h"})
    assert error.option == "group.id"
    assert "twice" in error.reason


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("group.ids", "'group.id'"),
        ("fetch.min.byte", "'fetch.min.bytes'"),
        ("group_id", "'group.id'"),
        ("bootstrap.server", "'bootstrap.servers'"),
        ("ssl.ca.location", "'ssl.truststore.location'"),
        ("metadata.broker.list", "'bootstrap.servers'"),
        ("sasl.mechanisms", "'sasl.mechanism'"),
        ("enable.partition.eof", "end_offsets"),
        ("key.deserializer", "key="),
        ("session.timout.ms", "'session.timeout.ms'"),
    ],
)
def test_an_unknown_key_is_refused_with_what_was_probably_meant(key, suggestion):
    error = refusal(ConsumerConfig, {**BOOTSTRAP, key: "x"})
    assert error.option == key
    assert suggestion in str(error)


def test_every_suggested_key_exists():
    known = {f.name.replace("_", ".") for kind in (ConsumerConfig, ProducerConfig, AdminConfig) for f in fields(kind)}
    assert set(RENAMED.values()) <= known
    assert not (set(RENAMED) | set(UNSUPPORTED)) & known


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("max.poll.records", 0, "at least 1"),
        ("max.poll.records", "many", "must be an integer"),
        ("max.poll.records", True, "must be an integer"),
        ("max.poll.records", 1.5, "must be an integer"),
        ("max.poll.records", 2**31, "at most"),
        ("enable.auto.commit", "yes", "true or false"),
        ("isolation.level", "serializable", "read_committed"),
        ("bootstrap.servers", "localhost", "host:port"),
        ("bootstrap.servers", "localhost:99999", "port"),
        ("bootstrap.servers", "", "required"),
        ("bootstrap.servers", "..:9092", "host name is invalid"),
        ("bootstrap.servers", f"{'a' * 300}:9092", "host name is invalid"),
        ("group.id", "a\ud800", "cannot be encoded as UTF-8"),
        ("client.id", "a\udcff", "cannot be encoded as UTF-8"),
        ("bootstrap.servers", 9092, "list"),
        ("group.id", "", "must not be empty"),
        ("group.protocol", "consumer", "not supported"),
        ("group.protocol", "newest", "classic"),
        ("auto.offset.reset", "Earliest", "earliest"),
        ("auto.offset.reset", "by_duration:-PT1H", "duration >= 0"),
        ("auto.offset.reset", "by_duration:PT", "duration >= 0"),
        ("heartbeat.interval.ms", 45000, "session.timeout.ms"),
        ("ssl.truststore.location", "trust.jks", "PEM"),
        ("ssl.enabled.protocols", "SSLv3", "TLSv1.2"),
        ("fetch.min.bytes", None, "must have a value"),
    ],
)
def test_a_bad_value_is_refused_with_the_reason(key, value, why):
    error = refusal(ConsumerConfig, {**BOOTSTRAP, key: value})
    assert error.option == key
    assert why in str(error)


@pytest.mark.parametrize("policy", ["earliest", "latest", "none", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_reset_policies_of_kafka_four_are_accepted(policy):  # I30
    assert consumer(auto_offset_reset=policy).auto_offset_reset == policy


def test_without_a_group_automatic_commits_turn_off_and_asking_for_them_is_refused():
    assert consumer().enable_auto_commit is False
    assert "group.id" in str(refusal(ConsumerConfig, {**BOOTSTRAP, "enable.auto.commit": True}))


@pytest.mark.parametrize("conflict", [{"acks": "1"}, {"acks": 0}, {"retries": 0}])
def test_idempotence_turns_off_for_a_conflicting_key_and_is_refused_where_it_was_asked_for(conflict):
    assert producer(**conflict).enable_idempotence is False
    refusal(ProducerConfig, BOOTSTRAP, {**conflict, "enable_idempotence": True})


def test_more_than_five_requests_in_flight_are_refused_with_idempotence():
    error = refusal(ProducerConfig, BOOTSTRAP, {"max_in_flight_requests_per_connection": 6})
    assert error.option == "max.in.flight.requests.per.connection"
    loose = producer(max_in_flight_requests_per_connection=6, enable_idempotence=False)
    assert loose.max_in_flight_requests_per_connection == 6


def test_the_delivery_timeout_covers_a_batch_and_a_request():
    assert producer(linger_ms=100_000).delivery_timeout_ms == 130_000
    assert "linger.ms" in str(refusal(ProducerConfig, BOOTSTRAP, {"delivery_timeout_ms": 1000}))


def test_transactions_are_refused_in_a_sentence():
    assert "not supported" in str(refusal(ProducerConfig, BOOTSTRAP, {"transactional_id": "t"}))


# Secrets

PASSWORD = "do-not-show-me"


@pytest.mark.parametrize(
    "options",
    [
        {**SASL, "sasl.username": "u", "sasl.password": PASSWORD},
        {**SASL, "sasl.jaas.config": f'x.ScramLoginModule required username="u" password="{PASSWORD}";'},
        {**BOOTSTRAP, "ssl.keystore.key": PASSWORD, "ssl.keystore.certificate.chain": "c"},
        {**BOOTSTRAP, "ssl.key.password": PASSWORD},
        {**BOOTSTRAP, "ssl.keystore.password": PASSWORD},
        {**BOOTSTRAP, "ssl.truststore.password": PASSWORD},
    ],
    ids=lambda options: list(options)[-1],
)
def test_secrets_are_in_no_representation(options):
    config = AdminConfig.from_options(options)
    assert PASSWORD not in repr(config)
    assert PASSWORD not in str(config.as_keys())
    assert PASSWORD not in repr(config.credentials)
    assert "[hidden]" in repr(config)


@pytest.mark.parametrize(
    "options",
    [
        {"sasl.pasword": PASSWORD},
        {"sasl.plain.password": PASSWORD},
        {"ssl_key_password": PASSWORD},
        {"sasl.oauth.token": PASSWORD},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"password={PASSWORD}"},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.password": PASSWORD,
            "sasl.jaas.config": f'PlainLoginModule required username="u" password="{PASSWORD}";',
        },
    ],
    ids=lambda options: ",".join(options),
)
def test_secrets_are_in_no_error(options):
    error = refusal(AdminConfig, {**BOOTSTRAP, **options})
    assert PASSWORD not in str(error)
    assert PASSWORD not in repr(error.args)


def test_a_secret_of_the_wrong_type_is_not_shown():
    error = refusal(AdminConfig, {**BOOTSTRAP, "sasl.password": PASSWORD.encode()})
    assert PASSWORD not in str(error)


def test_kafkas_jaas_line_gives_name_and_password():
    line = 'org.apache.kafka.common.security.scram.ScramLoginModule required\n  username=\'u\' password="a\\"b;c" x=y;'
    found = AdminConfig.from_options({**SASL, "sasl.jaas.config": line}).credentials
    assert (found.mechanism, found.username, found.password) == ("SCRAM-SHA-512", "u", 'a"b;c')


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.username"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password"),
        ({"security.protocol": "HTTPS"}, "security.protocol"),
        ({"ssl.keystore.certificate.chain": "c"}, "ssl.keystore.certificate.chain"),
    ],
)
def test_incomplete_security_names_the_missing_key(options, key):
    assert refusal(AdminConfig, {**BOOTSTRAP, **options}).option == key


def test_a_configuration_survives_pickling():
    config = consumer(group_id="g", sasl_password="p")
    assert pickle.loads(pickle.dumps(config)) == config

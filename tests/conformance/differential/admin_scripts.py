"""Scripts about the cluster: topics, partitions, configurations, metadata, versions.

Each function is a script of its own with fresh names; ``SCRIPTS`` lists them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tests.conformance.differential.cluster_script import ClusterRecorder as Recorder
from tests.conformance.differential.script import Entry
from tests.support.capture import CaptureError, Wire, framed

TOPIC = 2
BROKER = 4


def topic_fields(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def creates(r: Recorder) -> None:
    for version in range(2, 8):

        def ask(note: str, *topics: dict[str, Any], version: int = version, **more: Any) -> None:
            r.ask("CreateTopics", version, note, topics=list(topics), timeout_ms=10_000, **more)

        made = r.name(f"made-v{version}")
        ask("good", topic_fields(made, 2))
        ask("again", topic_fields(made, 2))
        ask("validate only", topic_fields(r.name(f"tried-v{version}")), validate_only=True)
        ask("was it made", topic_fields(r.name(f"tried-v{version}")), validate_only=True)
        if version >= 4:
            ask("defaults", topic_fields(r.name(f"defaults-v{version}"), -1, -1))
        ask("no partitions", topic_fields(r.name("a"), 0))
        ask("negative partitions", topic_fields(r.name("b"), -3))
        ask("too many replicas", topic_fields(r.name("c"), 1, 3))
        ask("no replicas", topic_fields(r.name("d"), 1, 0))
        for name in ("", ".", "..", "a b", "a/b", "ü", "x" * 249, "x" * 250):
            ask(f"name {name[:5]} of {len(name)}", topic_fields(name), validate_only=True)
        ask("colliding name", topic_fields(r.alias(made, made.replace("-", "_").replace(".", "_"))), validate_only=True)
        ask("asked twice", topic_fields(r.name("e")), topic_fields(r.name("e")))
        ask("nothing")
        for key, value in (("retention.ms", "1000"), ("retention.ms", "many"), ("no.such.key", "1"),
                           ("cleanup.policy", "compact,delete"), ("cleanup.policy", "keep"),
                           ("max.message.bytes", "-1"), ("message.timestamp.type", "LogAppendTime"),
                           ("compression.type", "lzma"),
                           ("segment.bytes", "1"), ("min.insync.replicas", "0"), ("retention.ms", None)):  # fmt: skip
            ask(
                f"{key}={value}", topic_fields(r.name("f"), configs=[{"name": key, "value": value}]), validate_only=True
            )
        assignments = {
            "one": [{"partition_index": 0, "broker_ids": [1]}],
            "unknown broker": [{"partition_index": 0, "broker_ids": [77]}],
            "gap": [{"partition_index": 1, "broker_ids": [1]}],
            "twice the same": [{"partition_index": 0, "broker_ids": [1, 1]}],
            "nobody": [{"partition_index": 0, "broker_ids": []}],
        }
        for note, each in assignments.items():
            if note == "one":
                continue
            ask(f"assigned {note}", topic_fields(r.name("g"), -1, -1, assignments=each), validate_only=True)
        ask("assigned and counted", topic_fields(r.name("h"), 2, 1, assignments=assignments["unknown broker"]),
            validate_only=True)  # fmt: skip


def deletes(r: Recorder) -> None:
    for version in range(1, 7):
        name = r.create_topic(f"deleted-v{version}")
        absent = r.name("absent")
        if version < 6:
            r.ask("DeleteTopics", version, "good and bad", topic_names=[name, absent], timeout_ms=5000)
            r.ask("DeleteTopics", version, "nothing", topic_names=[], timeout_ms=5000)
            continue
        r.ask("DeleteTopics", version, "good and bad", topics=[{"name": name}, {"name": absent}], timeout_ms=5000)
        for note, topics in {
            "unknown id": [{"name": None, "topic_id": b"\5" * 16}],
            "name and id": [{"name": absent, "topic_id": b"\5" * 16}],
            "neither": [{"name": None, "topic_id": bytes(16)}],
        }.items():
            r.ask("DeleteTopics", version, note, topics=topics, timeout_ms=5000)
        other = r.create_topic("by-id")
        topic_id = r.quietly("Metadata", 12, topics=[{"name": other}]).topics[0].topic_id
        r.ask("DeleteTopics", version, "by id", topics=[{"name": None, "topic_id": topic_id}], timeout_ms=5000)
        twice = r.create_topic("twice")
        r.ask("DeleteTopics", version, "twice", topics=[{"name": twice}, {"name": twice}], timeout_ms=5000)
    gone = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    r.until(lambda: r.quietly("Metadata", 9, **gone).topics[0].error_code == 3, "the topic is gone")
    r.ask("Metadata", 9, "afterwards", topics=[{"name": name}], allow_auto_topic_creation=False)


def more_partitions(r: Recorder) -> None:
    for version in range(4):
        name = r.create_topic(f"widened-v{version}", 2)

        def ask(note: str, *topics: dict[str, Any], version: int = version, **more: Any) -> None:
            r.ask("CreatePartitions", version, note, topics=list(topics), timeout_ms=5000, **more)

        ask("the same", {"name": name, "count": 2, "assignments": None})
        ask("fewer", {"name": name, "count": 1})
        ask("none", {"name": name, "count": 0})
        ask("negative", {"name": name, "count": -1})
        ask("unknown", {"name": r.name("absent"), "count": 3})
        ask("validate only", {"name": name, "count": 4, "assignments": None}, validate_only=True)
        ask("no assignments", {"name": name, "count": 4, "assignments": []})
        ask("more", {"name": name, "count": 4, "assignments": None})
        ask("more again", {"name": name, "count": 4, "assignments": None})
        ask("asked twice", {"name": name, "count": 5}, {"name": name, "count": 6})
        ask("too few assignments", {"name": name, "count": 7, "assignments": [{"broker_ids": [1]}]})
        ask("unknown broker", {"name": name, "count": 5, "assignments": [{"broker_ids": [77]}]})
        r.until(
            lambda name=name: len(r.quietly("Metadata", 9, topics=[{"name": name}]).topics[0].partitions) >= 4, "four"
        )
        r.ask("Metadata", 9, "afterwards", topics=[{"name": name}], allow_auto_topic_creation=False)


def too_much_at_once(r: Recorder) -> None:
    """Kafka's controller refuses what would be more than 10,000 records, with all that is in the request.

    CreatePartitions is not asked: Kafka answers UNKNOWN_SERVER_ERROR there, where ours says POLICY_VIOLATION again.
    """
    few, many = r.name("few"), r.name("many")
    for note, topics in {
        "as many partitions as records": [topic_fields(many, 10_000)],
        "far too many partitions": [topic_fields(few), topic_fields(many, 1_000_000)],
    }.items():
        r.ask("CreateTopics", 7, note, topics=topics, timeout_ms=10_000)
    r.ask("Metadata", 9, "nothing was made", topics=[{"name": few}, {"name": many}], allow_auto_topic_creation=False)


def configs(r: Recorder) -> None:
    name = r.create_topic("configured")
    for version in range(1, 5):

        def describe(note: str, kind: int, resource: str, keys: list[str] | None, version: int = version) -> Any:
            fields: dict[str, Any] = {
                "resources": [{"resource_type": kind, "resource_name": resource, "configuration_keys": keys}]
            }
            return r.ask("DescribeConfigs", version, note, **fields)

        keys = ["cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes", "segment.bytes",
                "message.timestamp.type", "compression.type", "min.insync.replicas", "segment.ms"]  # fmt: skip
        for key in keys:
            describe(f"topic {key}", TOPIC, name, [key])
        describe("unknown key", TOPIC, name, ["no.such.key"])
        describe("no keys", TOPIC, name, [])
        describe("unknown topic", TOPIC, r.name("absent"), None)
        describe("bad topic", TOPIC, "a b", None)
        describe("empty topic", TOPIC, "", None)
        describe("odd broker", BROKER, "x", None)
        describe("unknown broker", BROKER, "77", None)
        describe("unknown kind", 99, name, None)
    for version in range(2):

        def alter(note: str, kind: int, resource: str, *changes: tuple[str, int, str | None], version: int = version,
                  **more: Any) -> None:  # fmt: skip
            asked = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
            r.ask("IncrementalAlterConfigs", version, note, resources=[
                {"resource_type": kind, "resource_name": resource, "configs": asked}], **more)  # fmt: skip

        put, remove, append, subtract = range(4)
        alter("set", TOPIC, name, ("retention.ms", put, "1234"))
        alter("set two", TOPIC, name, ("retention.bytes", put, "99"), ("segment.ms", put, "5000"))
        alter("validate only", TOPIC, name, ("retention.ms", put, "77"), validate_only=True)
        alter("bad value", TOPIC, name, ("retention.ms", put, "soon"))
        alter("out of range", TOPIC, name, ("retention.ms", put, "-7"))
        alter("unknown key", TOPIC, name, ("no.such.key", put, "1"))
        alter("null", TOPIC, name, ("retention.ms", put, None))
        alter("same key twice", TOPIC, name, ("retention.ms", put, "1"), ("retention.ms", put, "2"))
        alter("append to a list", TOPIC, name, ("cleanup.policy", append, "compact"))
        alter("append to a number", TOPIC, name, ("retention.ms", append, "1"))
        alter("subtract", TOPIC, name, ("cleanup.policy", subtract, "compact"))
        alter("subtract what is not there", TOPIC, name, ("cleanup.policy", subtract, "compact"))
        alter("unknown operation", TOPIC, name, ("retention.ms", 9, "1"))
        alter("unknown topic", TOPIC, r.name("absent"), ("retention.ms", put, "1"))
        alter("unknown kind", 99, name, ("retention.ms", put, "1"))
        alter("odd broker", BROKER, "x", ("log.retention.ms", put, "1"))
        alter("nothing", TOPIC, name)
        wanted = {"resources": [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["segment.ms"]}]}
        r.until(
            lambda wanted=wanted: r.quietly("DescribeConfigs", 4, **wanted).results[0].configs[0].value == "5000", "set"
        )
        for key in ("retention.ms", "retention.bytes", "segment.ms", "cleanup.policy"):
            r.ask("DescribeConfigs", 4, f"{key} afterwards", resources=[
                {"resource_type": TOPIC, "resource_name": name, "configuration_keys": [key]}])  # fmt: skip
        alter("remove", TOPIC, name, ("retention.ms", remove, None), ("retention.bytes", remove, None),
              ("segment.ms", remove, None), ("cleanup.policy", remove, None))  # fmt: skip
        r.until(
            lambda wanted=wanted: r.quietly("DescribeConfigs", 4, **wanted).results[0].configs[0].value != "5000",
            "unset",
        )
    for version in (0, 1):
        r.ask("IncrementalAlterConfigs", version, "asked twice", resources=[
            {"resource_type": TOPIC, "resource_name": name, "configs": []}] * 2)  # fmt: skip


def metadata(r: Recorder) -> None:
    name, other = r.create_topic("seen", 3), r.create_topic("other", 1)
    topic_id = r.quietly("Metadata", 12, topics=[{"name": name}]).topics[0].topic_id
    for version in range(14):
        more: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}

        def ask(note: str, topics: list[dict[str, Any]], version: int = version, more: dict[str, Any] = more) -> None:
            r.ask("Metadata", version, note, topics=topics, **more)

        ask("two", [{"name": name}, {"name": other}])
        if version >= 1:
            ask("none", [])
        if version >= 4:
            ask("unknown", [{"name": r.name("absent")}])
            for bad in ("", ".", "a b", "x" * 250):
                ask(f"bad name of {len(bad)}", [{"name": bad}])
            ask("asked twice", [{"name": name}, {"name": name}])
        if version >= 10:
            ask("name and no id", [{"name": name, "topic_id": bytes(16)}])
        if version >= 12:
            ask("by id", [{"name": None, "topic_id": topic_id}])
            ask("unknown id", [{"name": None, "topic_id": b"\3" * 16}])
        if version >= 8:
            fields: dict[str, Any] = {"include_topic_authorized_operations": True}
            r.ask("Metadata", version, "with rights", topics=[{"name": name}], **fields, **more)
        if 8 <= version <= 10:
            r.ask("Metadata", version, "cluster rights", topics=[], include_cluster_authorized_operations=True, **more)
    for version in range(3):
        fields = {"endpoint_type": 1} if version >= 1 else {}
        r.ask("DescribeCluster", version, "plain", **fields)
        r.ask("DescribeCluster", version, "rights", include_cluster_authorized_operations=True, **fields)
        if version >= 1:
            r.ask("DescribeCluster", version, "controllers", endpoint_type=2)
            r.ask("DescribeCluster", version, "odd endpoints", endpoint_type=9)


def auto_creation(r: Recorder) -> None:
    for version in (0, 3, 4, 9, 13):
        name = r.name(f"auto-v{version}")
        more: dict[str, Any] = {"allow_auto_topic_creation": True} if version >= 4 else {}
        r.ask("Metadata", version, "the first time", topics=[{"name": name}], **more)
        r.until(lambda name=name: r.quietly("Metadata", 9, topics=[{"name": name}]).topics[0].error_code == 0, name)
        r.ask("Metadata", version, "it is there", topics=[{"name": name}], **more)
        r.ask("Metadata", version, "bad name", topics=[{"name": "a b"}], **more)


def raw(r: Recorder, note: str, payload: bytes) -> None:
    """Bytes that our own codec would not send; what comes back is compared as it is."""
    with Wire(r.bootstrap, timeout=10) as wire:
        try:
            wire.send(framed(payload))
            answer: Any = wire.receive(3).hex()
        except CaptureError as error:
            answer = "closed" if "closed" in str(error) or "broke off" in str(error) else str(error)
    r.entries.append(Entry("raw", 0, note, answer))


def bad_requests(r: Recorder) -> None:
    """What closes a connection and what is answered."""

    def header(key: int, version: int, client: bytes | None = b"x") -> bytes:
        name = struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
        return struct.pack(">hhi", key, version, 7) + name

    raw(r, "unknown api", header(999, 0))
    raw(r, "negative api", header(-1, 0))
    raw(r, "api between brokers", header(6, 7))
    raw(r, "metadata of the future", header(3, 99))
    raw(r, "negative version", header(3, -1))
    raw(r, "join of the past", header(11, 0))
    raw(r, "nothing", b"")
    raw(r, "half a header", b"\0\3\0")
    raw(r, "no body", header(3, 9))
    raw(r, "api versions of the future", header(18, 99) + b"\0")
    raw(r, "a list that is too long", header(3, 1) + struct.pack(">i", 2**31 - 1))
    raw(r, "a negative list", header(3, 0) + struct.pack(">i", -5))
    raw(r, "trailing bytes", header(11, 3, None)[:8] + b"\xff\xff")
    raw(r, "a text of no bytes", header(9, 1) + b"\0\0" + struct.pack(">i", 0))
    for version in range(5):
        fields = {"client_software_name": "tests", "client_software_version": "1.0"} if version >= 3 else {}
        answer = r.quietly("ApiVersions", version, on=f"versions-{version}", **fields)
        assert answer.error_code == 0
    for note, name, number in (
        ("empty", "", ""),
        ("odd", "a b", "1"),
        ("odd version", "tests", "/"),
        ("dash", "-x", "1"),
    ):
        answer = r.quietly(
            "ApiVersions", 3, on=f"software {note}", client_software_name=name, client_software_version=number
        )
        r.entries.append(Entry("ApiVersions", 3, f"{note} software", {"error_code": answer.error_code}))


SCRIPTS: tuple[Callable[[Recorder], None], ...] = (
    creates,
    deletes,
    more_partitions,
    too_much_at_once,
    configs,
    metadata,
    auto_creation,
    bad_requests,
)

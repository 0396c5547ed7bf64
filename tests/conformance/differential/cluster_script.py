"""A recorder for scripts about topics and records: what a cluster makes up itself becomes a label.

Topic ids, producer ids and fetch sessions are numbered in the order of appearance; the node, its address and the
cluster have one label each. Lists that Kafka keeps in hash maps are sorted. A sentence for people is compared only in
that there is one: ``differences.md`` says so, and the codes beside it are compared.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.differential.script import Recorder

_UNORDERED = {
    "Produce.responses": ("name",),
    "Produce.responses.partition_responses": ("index",),
    "Metadata.topics": ("name", "topic_id"),
    "Metadata.topics.partitions": ("partition_index",),
    "DeleteTopics.responses": ("name", "error_code"),
    "CreateTopics.topics": ("name",),
    "CreateTopics.topics.configs": ("name",),
    "CreatePartitions.results": ("name",),
    "DescribeConfigs.results.configs": ("name",),
    "DeleteRecords.topics": ("name",),
    "Fetch.responses": ("topic",),
    "ListOffsets.topics": ("name",),
    "ListOffsets.topics.partitions": ("partition_index",),
    "OffsetForLeaderEpoch.topics": ("topic",),
}
# Fields whose value a broker makes up, and what it is called.
_MADE_UP = {"topic_id": "id", "producer_id": "producer", "session_id": "session"}
_NODES = {"node_id", "leader_id", "controller_id", "broker_id", "replica_nodes", "isr_nodes"}
_ABSENT = ("0" * 32, -1, 0)
SENTENCE = "<sentence>"


class ClusterRecorder(Recorder):
    """Also gives ids, nodes and the cluster names of their own in the transcript."""

    def alias(self, name: str, other: str) -> str:
        """Another spelling of a name, to appear in the transcript as such."""
        self._names[other] = f"<{self._names[name][1:-1]} in another spelling>"
        return other

    def _normal(self, value: Any, path: str, is_unordered: bool) -> Any:
        if isinstance(value, dict):
            return {name: self._normal_field(path, name, each, is_unordered) for name, each in value.items()}
        if isinstance(value, list):
            found = [self._normal(each, path, is_unordered) for each in value]
            keys = _UNORDERED.get(path)
            return found if keys is None else sorted(found, key=lambda each: [str(each.get(key)) for key in keys])
        return super()._normal(value, path, is_unordered)

    def _normal_field(self, path: str, name: str, value: Any, is_unordered: bool) -> Any:
        if name in _MADE_UP:
            return value if value in _ABSENT else self._labels.setdefault(f"{name} {value}", self._next(name))
        if name in _NODES:
            return [_node(each) for each in value] if isinstance(value, list) else _node(value)
        if name == "cluster_id":
            return "<cluster>" if value else value
        if name in ("host", "port") and path.endswith("brokers"):
            return f"<{name}>"
        if name.endswith("_message"):
            return SENTENCE if value else value
        return self._normal(value, f"{path}.{name}", is_unordered)

    def _next(self, name: str) -> str:
        taken = sum(label.startswith(f"<{_MADE_UP[name]} ") for label in self._labels.values())
        return f"<{_MADE_UP[name]} {taken + 1}>"


def _node(value: int) -> int | str:
    # There is one node; -1 stands for none.
    return value if value < 0 else "<node>"

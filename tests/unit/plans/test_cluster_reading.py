"""What the cluster says of its logs, where it says something that cannot be."""

from seamark.client.admin.types import ListedOffset
from seamark.client.net.fanout import Results
from seamark.plans.cluster_reading import read_logs
from seamark.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Leaders:
    """Partition 1 is answered for with -1, which stands for no offset."""

    def list_offsets(self, specs, *, timeout=None):
        return Results({each: ListedOffset(-1 if each == T1 else 5, -1, 0) for each in specs}, {})


def test_a_log_without_start_or_end_is_unreadable_with_a_reason():
    logs, unreadable = read_logs(Leaders(), [T0, T1])
    assert logs == {T0: (5, 5)}
    assert unreadable == {T1: "ListOffsets returned no start or end of the log (-1)"}

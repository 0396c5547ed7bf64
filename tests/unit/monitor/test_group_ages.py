"""The ages of many groups that stand at many places of one log: few questions, and errors that hold."""

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client.admin_results import Results
from seamark.client.admin_types import ListedOffset
from seamark.client.records_api import Offset
from seamark.monitor.lag_report import group_ages
from seamark.topic_partition import TopicPartition

LOG = TopicPartition("log", 0)
NOW_MS = 10_000_000


class TimedLog:
    """Answers which record is the first at or after a time."""

    def __init__(self, written_ms):
        self.written_ms = written_ms
        self.questions = 0

    def list_offsets(self, asked, *, timeout=None):
        self.questions += 1
        found = next((at for at, when in enumerate(self.written_ms) if when >= asked[LOG]), -1)
        return Results({LOG: ListedOffset(found, self.written_ms[found] if found >= 0 else -1, -1)}, {})


def groups_at(positions, log_end):
    bounds = SimpleNamespace(log_start=0, log_end=log_end)
    return SimpleNamespace(
        groups=[
            SimpleNamespace(
                group_id=f"g{position}",
                partitions=[SimpleNamespace(partition=LOG, committed=Offset(position), bounds=bounds)],
            )
            for position in positions
        ]
    )


def test_the_number_of_questions_does_not_grow_with_the_number_of_groups():
    log = TimedLog([1000 * at for at in range(5000)])
    found = group_ages(log, groups_at(range(0, 5001, 2), 5000), NOW_MS)
    assert len(found) == 2501
    assert log.questions <= 8 * 24
    assert found["g5000", LOG].method == "caught up"


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 60_000), min_size=1, max_size=60),
    st.sets(st.integers(0, 60), min_size=1, max_size=60),
)
def test_the_true_age_is_within_the_error_of_the_one_that_is_told(gaps, wanted):
    written, at_ms = [], NOW_MS - sum(gaps) - 1000
    for gap in gaps:
        at_ms += gap
        written.append(at_ms)
    positions = {min(position, len(written)) for position in wanted}
    found = group_ages(TimedLog(written), groups_at(positions, len(written)), NOW_MS)
    for position in positions:
        age = found[f"g{position}", LOG]
        true = 0.0 if position == len(written) else (NOW_MS - written[position]) / 1000
        assert abs(age.seconds - true) <= age.error + 0.002

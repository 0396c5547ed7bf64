"""What cannot be read is shown as that: it is not left out, not well, and not well again."""

import pytest

from seamark.client.errors import broker_error
from seamark.client.net.fanout import Results
from seamark.dashboard.sight import Limits, Sight
from seamark.rules.status import Status
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from tests.unit.dashboard.conftest import Browser

REFUSED = broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "DescribeGroups", "group 'billing'")


def refuse_to_describe(cluster, patch):
    patch.setattr(cluster, "describe_groups", lambda *_, **__: Results({}, {"billing": REFUSED}))


def refuse_offsets(cluster, patch):
    patch.setattr(cluster, "list_group_offsets", lambda *_, **__: Results({}, {"billing": REFUSED}))


def refuse_logs(cluster, patch):
    refusal = broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "ListOffsets", "topic 'orders'")
    patch.setattr(cluster, "list_offsets", lambda specs, **_: Results({}, dict.fromkeys(specs, refusal)))


def test_a_group_that_cannot_be_described_is_listed_counted_and_has_a_page_with_the_reason(
    cluster, sight, dashboard_of, monkeypatch
):
    refuse_to_describe(cluster, monkeypatch)
    sight.look_once()
    assert sight.board.counts == {Status.UNKNOWN: 1}
    browser = Browser(dashboard_of())
    browser.log_in()
    assert "GROUP_AUTHORIZATION_FAILED" in browser.get("/c/main/groups").text
    answer = browser.get("/c/main/group?id=billing")
    assert (answer.status, "cannot be read: DescribeGroups of group" in answer.text) == (404, True)


@pytest.mark.parametrize("refuse", [refuse_to_describe, refuse_offsets])
def test_an_alert_is_not_over_because_its_group_cannot_be_read(cluster, history, monkeypatch, refuse):
    told = []
    sight = Sight("main", cluster, history, limits=Limits(records=10))
    sight.webhook = type("Hook", (), {"put": lambda _, alerts: told.extend(each.state for each in alerts)})()
    for _ in range(2):
        sight.look_once()
    assert told == ["firing"]
    with monkeypatch.context() as patch:
        refuse(cluster, patch)
        for _ in range(5):
            sight.look_once()
    assert told == ["firing"]
    cluster.commit("billing", orders_0=100)
    for _ in range(2):
        sight.look_once()
    assert told == ["firing", "resolved"]


def test_a_partition_that_does_not_answer_any_more_is_not_said_to_be_well(cluster, sight, monkeypatch):
    cluster.commit("billing", orders_0=100)
    sight.look_once()
    place = ("billing", TopicPartition("orders", 0))
    assert sight.board.states[place].status is Status.OK
    refuse_logs(cluster, monkeypatch)
    sight.look_once()
    assert sight.board.states[place].status is Status.UNKNOWN
    (row,) = sight.board.rows
    assert (row.status, row.lag) == (Status.UNKNOWN, None)

"""A group whose offset went back stays rewound until it is where it was, or until somebody acknowledged it."""

from seamark.client.errors import broker_error
from seamark.client.net.fanout import Results
from seamark.dashboard.sight import Sight
from seamark.monitor.watching import Watching
from seamark.rules.status import Status
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from tests.unit.dashboard.conftest import Browser

PLACE = TopicPartition("orders", 1)


def status_of(sight):
    return next(row.status for row in sight.board.rows if row.name == "billing")


def rewind(cluster, sight):
    """Offset 90 was seen, then 10; the log ends at 100."""
    cluster.commit("billing", orders_0=100, orders_1=90, orders_2=100)
    sight.look_once()
    cluster.commit("billing", orders_1=10)
    sight.look_once()
    assert status_of(sight) is Status.REWOUND


def test_it_is_rewound_for_longer_than_looks_are_kept(cluster, history):
    sight = Sight("main", cluster, history, every=60.0)
    rewind(cluster, sight)
    for offset in (20, *[30] * 50, 89):
        cluster.commit("billing", orders_1=offset)
        sight.look_once()
        assert status_of(sight) is Status.REWOUND
    cluster.commit("billing", orders_1=90)
    sight.look_once()
    assert status_of(sight) is not Status.REWOUND


def test_another_dashboard_on_the_same_history_knows_of_it(cluster, history):
    rewind(cluster, Sight("main", cluster, history))
    restarted = Sight("main", cluster, history)
    restarted.look_once()
    assert status_of(restarted) is Status.REWOUND
    cluster.commit("billing", orders_1=95)
    caught_up = Sight("main", cluster, history)
    caught_up.look_once()
    assert status_of(caught_up) is not Status.REWOUND
    assert history.rewinds("the-cluster") == {}


def test_who_acknowledges_it_sees_it_no_more_until_offsets_go_back_again(cluster, sight, dashboard_of, history):
    rewind(cluster, sight)
    browser = Browser(dashboard_of())
    browser.log_in()
    address = "/c/main/group?id=billing"
    assert "Acknowledge the rewind" in browser.get(address).text
    assert browser.post("/c/main/acknowledge", {"id": "billing"}, with_secret=False).status == 403
    assert status_of(sight) is Status.REWOUND
    answer = browser.post("/c/main/acknowledge", {"id": "billing"})
    assert (answer.status, answer.headers["location"]) == (303, address)
    page = browser.get(address).text
    assert "Acknowledge the rewind" not in page
    assert "rewind acknowledged by a user: orders-1" in page
    sight.look_once()
    assert status_of(sight) is not Status.REWOUND
    assert history.rewinds("the-cluster") == {}
    cluster.commit("billing", orders_1=5)
    sight.look_once()
    assert status_of(sight) is Status.REWOUND


def test_acknowledging_a_group_that_did_not_go_back_does_nothing(browser, sight):
    browser.get("/c/main/groups")
    assert browser.post("/c/main/acknowledge", {"id": "nobody"}).status == 303
    assert sight.events("nobody") == []


def test_a_group_that_cannot_be_read_for_a_while_is_still_rewound_and_one_that_is_gone_is_forgotten(
    cluster, sight, monkeypatch
):
    rewind(cluster, sight)
    refusal = broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "DescribeGroups", "group 'billing'")
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "describe_groups", lambda *_, **__: Results({}, {"billing": refusal}))
        sight.look_once()
        assert status_of(sight) is Status.UNKNOWN
    sight.look_once()
    assert status_of(sight) is Status.REWOUND
    committed = cluster.committed.pop("billing")
    sight.look_once()
    cluster.committed["billing"] = committed
    sight.look_once()
    assert status_of(sight) is not Status.REWOUND


def test_groups_that_are_gone_leave_nothing_behind(cluster, history):
    watching = Watching()
    sight = Sight("main", cluster, history)
    sight._poller.watching = watching
    for number in range(20):
        cluster.committed = {f"random-{number}": {PLACE: cluster.committed.popitem()[1][PLACE]}}
        sight.look_once()
    assert set(watching._active) == {group for group, _ in watching._samples} == {"random-19"}

"""Alerts: told once when trouble lasts, once when it is over."""

import json
from types import SimpleNamespace

import pytest

from seamark.dashboard.sight import Limits, Sight
from seamark.errors import ConfigError
from seamark.monitor.alerts import Alert, AlertBook, Trouble
from seamark.monitor.webhook import Webhook

STALLED = Trouble("stalled", ("orders-0: its offset does not move",), 5, 60.0)


def told(alerts):
    return [(alert.state, alert.group) for alert in alerts]


def test_trouble_is_told_when_it_lasts_and_once():
    book = AlertBook("c")
    assert book.update({"g": STALLED}, 1) == []
    (alert,) = book.update({"g": STALLED}, 2)
    assert (alert.state, alert.group, alert.since_ms, alert.at_ms) == ("firing", "g", 1, 2)
    assert book.update({"g": STALLED}, 3) == []
    assert book.firing == {"g"}


def test_the_end_is_told_once_when_it_lasts():
    book = AlertBook("c")
    book.update({"g": STALLED}, 1)
    book.update({"g": STALLED}, 2)
    assert book.update({}, 3) == []
    assert book.update({"g": STALLED}, 4) == []
    assert book.update({}, 5) == []
    assert told(book.update({}, 6)) == [("resolved", "g")]
    assert book.update({}, 7) == []
    assert not book.firing


def test_trouble_that_is_gone_before_it_was_told_is_never_told():
    book = AlertBook("c")
    for at in range(0, 20, 2):
        assert book.update({"g": STALLED}, at) == []
        assert book.update({}, at + 1) == []


def test_the_body_says_everything_and_its_text_is_a_sentence():
    body = Alert("firing", "main", "g", STALLED, 1, 2).body()
    assert body["text"] == "group 'g' on cluster 'main' is stalled: orders-0: its offset does not move"
    assert (body["format"], body["version"], body["lag"], body["behind_seconds"]) == ("seamark.alert", 1, 5, 60.0)
    json.dumps(body)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/secret", "secret", "file:///etc/passwd", "", "http://[::1/secret", "http://[secret]/", "http://secret:65536/",
        "http://secret:-1/", "http://secret:x/", "http:///secret", "https://a b/secret", "http://secret\n/", "http://h/secret\u00fc",
        "http://h/\x1bsecret", "https://" + "secret" * 20 + "/", "http://h:" + "9" * 5000 + "/secret",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_without_being_repeated(url):
    with pytest.raises(ConfigError) as refused:
        Webhook(url)
    assert "secret" not in str(refused.value)
    assert "passwd" not in str(refused.value)


def test_a_group_that_is_too_far_behind_is_told_to_the_webhook(cluster, history):
    alerts = []
    hook = SimpleNamespace(put=alerts.extend)
    sight = Sight("main", cluster, history, limits=Limits(records=50), webhook=hook)
    sight.look_once()
    sight.look_once()
    assert [alert.body()["text"] for alert in alerts] == [
        "group 'billing' on cluster 'main' is too far behind: it is 60 records behind, more than 50"
    ]
    assert sight.firing == 1


def test_a_history_that_cannot_be_written_is_shown_and_stops_nothing(sight, history, cluster):
    history.close()
    sight.look_once()
    assert "cannot be written" in sight.history_error
    assert sight.board is not None
    assert sight.sparks(["billing"], 60) == {}

"""Alerts: told once when trouble lasts, once when it is over, and carried by a webhook that fails now and then."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


class Receiver:
    """Answers with the given codes in turn, then 200; keeps what it was sent."""

    def __init__(self):
        self.codes: list[int] = []
        self.bodies: list[dict] = []
        self.arrived = threading.Semaphore(0)
        receiver = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code = receiver.codes.pop(0) if receiver.codes else 200
                if code == 200:
                    receiver.bodies.append(body)
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()
                receiver.arrived.release()

            def log_message(self, format, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook?secret=s3cr3t"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


def alert(group):
    return Alert("firing", "c", group, STALLED, 1, 2)


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_alerts_arrive_in_order_although_the_webhook_fails_at_first(receiver):
    receiver.codes = [500, 503, 302, 200]
    hook = Webhook(receiver.url, first_pause=0.01)
    hook.put([alert("a"), alert("b")])
    until(lambda: hook.sent == 2)
    assert [body["group"] for body in receiver.bodies] == ["a", "b"]
    assert hook.error is None
    hook.close()


def test_an_alert_that_is_not_wanted_is_given_up_at_once_and_the_next_one_arrives(receiver):
    receiver.codes = [404]
    hook = Webhook(receiver.url, first_pause=60)
    hook.put([alert("a"), alert("b")])
    until(lambda: hook.sent == 1)
    assert [body["group"] for body in receiver.bodies] == ["b"]
    assert hook.dropped == 1
    hook.close()


def test_a_webhook_that_is_away_costs_no_more_than_its_queue_and_never_shows_its_secret(caplog):
    hook = Webhook("http://127.0.0.1:1/?secret=s3cr3t", attempts=2, most=5, first_pause=0.01)
    hook.put(alert(str(number)) for number in range(100))
    assert hook.waiting <= 5
    until(lambda: hook.waiting == 0 and hook.dropped == 100)
    assert "127.0.0.1" in hook.error
    assert "s3cr3t" not in hook.error + caplog.text
    started = time.monotonic()
    hook.close()
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("url", ["ftp://x/secret", "secret", "file:///etc/passwd", ""])
def test_an_address_that_is_none_is_refused_without_being_repeated(url):
    with pytest.raises(ConfigError) as refused:
        Webhook(url)
    assert "secret" not in str(refused.value)
    assert "passwd" not in str(refused.value)


def test_a_group_that_is_too_far_behind_reaches_the_webhook(cluster, history, receiver):
    hook = Webhook(receiver.url)
    sight = Sight("main", cluster, history, limits=Limits(records=50), webhook=hook)
    sight.look_once()
    sight.look_once()
    until(lambda: hook.sent == 1)
    assert receiver.bodies[0]["text"] == (
        "group 'billing' on cluster 'main' is too far behind: it is 60 records behind, more than 50"
    )
    assert sight.firing == 1
    hook.close()


def test_a_history_that_cannot_be_written_is_shown_and_stops_nothing(sight, history, cluster):
    history.close()
    sight.look_once()
    assert "cannot be written" in sight.history_error
    assert sight.board is not None
    assert sight.sparks(["billing"], 60) == {}

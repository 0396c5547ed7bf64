"""Alerts on their way to a webhook that fails now and then."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from seamark.monitor.alerts import Alert, Trouble
from seamark.monitor.webhook import Webhook
from tests.support.waiting import eventually

STALLED = Trouble("stalled", ("orders-0: its offset does not move",), 5, 60.0)


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


def test_alerts_arrive_in_order_although_the_webhook_fails_at_first(receiver):
    receiver.codes = [500, 503, 302, 200]
    hook = Webhook(receiver.url, first_pause=0.01)
    hook.put([alert("a"), alert("b")])
    eventually(lambda: hook.sent == 2, "both alerts were sent")
    assert [body["group"] for body in receiver.bodies] == ["a", "b"]
    assert hook.error is None
    hook.close()


def test_an_alert_that_is_not_wanted_is_given_up_at_once_and_the_next_one_arrives(receiver):
    receiver.codes = [404]
    hook = Webhook(receiver.url, first_pause=60)
    hook.put([alert("a"), alert("b")])
    eventually(lambda: hook.sent == 1, "the second alert was sent")
    assert [body["group"] for body in receiver.bodies] == ["b"]
    assert hook.dropped == 1
    hook.close()


def test_a_webhook_that_is_away_costs_no_more_than_its_queue_and_never_shows_its_secret(caplog):
    hook = Webhook("http://127.0.0.1:1/?secret=s3cr3t", attempts=2, most=5, first_pause=0.01)
    hook.put(alert(str(number)) for number in range(100))
    assert hook.waiting <= 5
    eventually(lambda: hook.waiting == 0 and hook.dropped == 100, "all alerts were given up")
    assert "127.0.0.1" in hook.error
    assert "s3cr3t" not in hook.error + caplog.text
    started = time.monotonic()
    hook.close()
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://[::1]:8/x?y=%C3%BC", "::1"),
        ("http://user:pw@h/", "h"),
        ("http://b\u00fccher.org/", "b\u00fccher.org"),
    ],
)
def test_addresses_of_all_kinds_are_taken(url, host):
    hook = Webhook(url)
    assert hook.host == host
    hook.close()


def test_an_address_that_turns_out_to_be_none_when_it_is_used_does_not_end_the_sending(receiver):
    hook = Webhook(receiver.url, attempts=1)

    def refuse(*_, **__):
        raise UnicodeError("label too long")

    ordinary, hook._open = hook._open, refuse
    hook.put([alert(1)])
    eventually(lambda: hook.dropped == 1, "giving up the alert")
    hook._open = ordinary
    hook.put([alert(2)])
    eventually(lambda: hook.sent == 1, "sending the next one")
    hook.close()

"""The dashboard on a real port: silent, slow and odd clients are ended, and keep nobody out."""

import socket
import ssl
import threading
import time

import pytest

from seamark.dashboard import http_limits, serving
from seamark.dashboard.access import Access
from seamark.dashboard.app import Dashboard
from seamark.dashboard.http_limits import MOST_CONNECTIONS, MOST_OF_AN_ADDRESS, BoundedHttp
from seamark.dashboard.serving import Server
from seamark.dashboard.wording import Wording
from seamark.http_hosts import AllowedHosts
from tests.support.capture import is_ended
from tests.support.certificates import Authority
from tests.support.waiting import eventually

LOGIN = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def made():
    wording = Wording(str, lambda text: text)
    return Dashboard([], Access("a-token-of-the-tests", time.monotonic), wording, hosts=AllowedHosts("127.0.0.1"))


@pytest.fixture
def server():
    with Server(made(), "127.0.0.1:0") as running:
        yield running


def connected(server, source="127.0.0.1"):
    host, port = server.address.split(":")
    return socket.create_connection((host, int(port)), 20, (source, 0))


def ask(server, request=LOGIN, source="127.0.0.1"):
    with connected(server, source) as client:
        client.sendall(request)
        received = b""
        try:
            while piece := client.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


def test_silent_connections_keep_nobody_out_and_push_nobody_else_out(server):
    bystanders = [connected(server, "127.0.0.9") for _ in range(3)]
    crowd = [connected(server, f"127.0.0.{2 + number % 5}") for number in range(MOST_CONNECTIONS + 40)]
    assert ask(server).startswith(b"HTTP/1.1 200 ")
    assert ask(server, HEALTH).endswith(b"ok\n")
    assert ask(server, source="127.0.0.2").startswith(b"HTTP/1.1 200 ")
    for client in (*crowd, *bystanders):
        client.close()


def test_one_address_gives_up_its_own_connections_first(server):
    bystanders = [connected(server, "127.0.0.2") for _ in range(3)]
    crowd = [connected(server) for _ in range(2 * MOST_OF_AN_ADDRESS)]
    assert ask(server).startswith(b"HTTP/1.1 200 ")
    eventually(lambda: sum(map(is_ended, crowd)) > MOST_OF_AN_ADDRESS, "the oldest of the crowd were ended")
    assert not any(map(is_ended, bystanders))
    for client in (*crowd, *bystanders):
        client.close()


def test_an_address_whose_connections_are_all_at_work_gets_more_and_at_the_end_a_refusal(server, monkeypatch, caplog):
    monkeypatch.setattr(http_limits, "MOST_CONNECTIONS", MOST_OF_AN_ADDRESS + 5)
    monkeypatch.setattr(BoundedHttp, "is_waiting", False)
    clients = [connected(server) for _ in range(MOST_OF_AN_ADDRESS + 5)]
    assert ask(server) == b""
    assert not any(map(is_ended, clients))
    assert "was refused a connection" in caplog.text
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET /login HT",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\nsecret=",
        b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /log",
    ],
)
def test_a_client_that_does_not_finish_its_request_is_ended_however_it_trickles(server, beginning, monkeypatch):
    monkeypatch.setattr(http_limits, "REQUEST_S", 0.2)
    monkeypatch.setattr(http_limits, "_SWEEP_S", 0.1)
    with connected(server) as slow:
        slow.sendall(beginning)

        def goes_on():
            try:
                if beginning:
                    slow.sendall(b"x")
                slow.settimeout(0)
                while slow.recv(65536):
                    pass
            except BlockingIOError:
                return False
            except OSError:
                return True
            return True

        eventually(goes_on, "the end of the connection")


def test_requests_beyond_the_limit_are_refused_and_health_is_not(server, monkeypatch):
    monkeypatch.setattr(http_limits, "MOST_REQUESTS", 0)
    assert ask(server).startswith(b"HTTP/1.1 503 ")
    assert ask(server, HEALTH).endswith(b"ok\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /login HTTP/1.1\r\n" + b"x: y\r\n" * 5000 + b"\r\n", 400),
        (b"GET /" + b"x" * 20_000, 400),
        (b"GET /login HTTP/1.1\r\n\r\n", 400),
        (b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n", 400),
        (b"GET http://evil/login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET /login HTTP/1.1\r\nHost: evil.example.org\r\nConnection: close\r\n\r\n", 421),
        (b"OPTIONS /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 405),
        (b"HEAD /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 200),
        (b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n", 200),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 90000\r\n\r\n"
         + b"x" * 90_000, 403),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
         b"Content-Length: 5\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 403),
    ],
)  # fmt: skip
def test_odd_requests_have_one_answer(server, request_bytes, status, capfd):
    answer = ask(server, request_bytes)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.count(b"HTTP/1.1 ") == 1
    assert capfd.readouterr().err == ""


def test_with_tls_a_client_that_does_not_shake_hands_is_ended_and_others_are_served(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "_HANDSHAKE_S", 0.3)
    authority = Authority(tmp_path)
    signed = authority.sign("/CN=dashboard")
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    trusting.check_hostname = False
    with (
        Server(made(), "127.0.0.1:0", certificate=str(signed.certificate), key=str(signed.key)) as server,
        connected(server) as silent,
        trusting.wrap_socket(connected(server)) as client,
    ):
        client.sendall(HEALTH)
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        eventually(lambda: is_ended(silent), "the end of the silent connection")


def test_it_ends_although_clients_hold_on(server):
    clients = [connected(server) for _ in range(20)]
    ended = threading.Thread(target=server.close)
    ended.start()
    ended.join(30)
    assert not ended.is_alive()
    for client in clients:
        client.close()

"""Pages for scrapers and probes, from outside: whoever is slow, silent or asks too often hurts only itself."""

import socket
from http import HTTPStatus

import pytest

from seamark import http_pages
from seamark.errors import ConfigError, UsageError
from seamark.http_hosts import AllowedHosts
from seamark.http_pages import MAX_CLIENTS, MAX_CLIENTS_OF_AN_ADDRESS, HttpPages, Page
from tests.support.capture import is_ended
from tests.support.waiting import eventually


def connected(pages, source="127.0.0.1"):
    host, port = pages.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 10, (source, 0))


def ask(pages, request=b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", source="127.0.0.1"):
    with connected(pages, source) as client:
        client.sendall(request)
        received = b""
        while piece := client.recv(65536):
            received += piece
        return received


@pytest.fixture
def asked():
    return []


@pytest.fixture
def pages(asked):
    def page(path):
        if path == "/health":
            return Page("well\n")
        if path != "/metrics":
            return Page("there is /metrics\n", HTTPStatus.NOT_FOUND)
        asked.append(path)
        return Page(f"look {len(asked)}\n")

    with HttpPages(page) as made:
        yield made


def test_silent_clients_go_for_new_ones_of_their_address_first(pages):
    bystanders = [connected(pages, "127.0.0.2") for _ in range(5)]
    silent = [connected(pages) for _ in range(3 * MAX_CLIENTS_OF_AN_ADDRESS)]
    assert b"200 OK" in ask(pages)
    assert b"200 OK" in ask(pages, source="127.0.0.3")
    eventually(lambda: sum(map(is_ended, silent)) >= 2 * MAX_CLIENTS_OF_AN_ADDRESS, "the oldest were let go")
    assert not any(map(is_ended, bystanders))
    assert len(pages._server._clients) <= MAX_CLIENTS
    for client in (*bystanders, *silent):
        client.close()


def test_a_client_that_sends_its_request_byte_by_byte_is_let_go(monkeypatch, pages):
    monkeypatch.setattr(http_pages, "CLIENT_SECONDS", 0.3)
    with connected(pages) as slow:
        slow.sendall(b"GET /met")

        def goes_on():
            try:
                slow.sendall(b"x")
            except OSError:
                return True
            return is_ended(slow)

        eventually(goes_on, "the end of the connection")


def test_who_asks_too_often_gets_the_last_page_again(pages, asked, monkeypatch):
    ask(pages)
    monkeypatch.setattr(http_pages, "PAGES_AT_ONCE_S", -1.0)
    assert [ask(pages).rpartition(b"\r\n")[2] for _ in range(20)] == [b"look 1\n"] * 20
    assert len(asked) == 1
    # Another page is none of its business.
    assert ask(pages, b"GET /health HTTP/1.1\r\n\r\n").endswith(b"well\n")
    monkeypatch.undo()
    assert ask(pages).endswith(b"look 2\n")


def test_the_time_that_went_into_a_page_is_paid_back_slowly():
    kept = http_pages._Kept()
    kept.spend(1.0, 100.0)
    kept.spend(1.0, 105.0)
    assert kept.spent_s(105.0) == pytest.approx(1.0)
    assert kept.spent_s(110.0) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nhost:  LocalHost:99\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: [::1]:99\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200),
        (b"OPTIONS /metrics HTTP/1.1\r\n\r\n", 405),
        (b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET http://evil/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 2000 + b"\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 200),
    ],
)
def test_odd_requests_have_one_answer_and_end(pages, request_bytes, status):
    answer = ask(pages, request_bytes)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.count(b"HTTP/1.1 ") == 1


def test_only_the_first_of_pipelined_requests_is_answered(pages, asked):
    assert ask(pages, b"GET /metrics HTTP/1.1\r\n\r\n" * 50).count(b"HTTP/1.1 200") == 1
    assert len(asked) == 1


def test_a_page_that_fails_is_an_answer_and_few_tracebacks(caplog):
    def broken(_path):
        raise ValueError("a bug")

    with HttpPages(broken) as pages:
        for _ in range(20):
            assert ask(pages).startswith(b"HTTP/1.1 500 ")
    assert 1 <= caplog.text.count("ValueError: a bug") <= 3


def test_ending_twice_and_an_address_in_use(pages):
    with pytest.raises(UsageError, match=r"^cannot listen on 127\.0\.0\.1:\d+: the address is in use$"):
        HttpPages(lambda _: Page(""), pages.address)
    pages.close()
    pages.close()
    with pytest.raises(OSError, match="refused"):
        connected(pages)


@pytest.mark.parametrize(
    "name",
    [
        "a.example.org:80",
        "",
        " ",
        "a b",
        "[",
        "[::1]",
        "http://a",
        "a/b",
        "b\u00fccher.example",
        "x" * 5000,
        "a\n",
        "-a",
    ],
)
def test_a_host_that_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match="without a port") as refused:
        HttpPages(lambda _: Page(""), allowed_hosts=[name])
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("name", ["*", "*.example.org", "board.*"])
def test_a_pattern_that_would_let_every_website_in_is_refused(name):
    with pytest.raises(ConfigError, match="any website could resolve such a name to this machine"):
        HttpPages(lambda _: Page(""), allowed_hosts=[name])


@pytest.mark.parametrize("name", ["board", "a_b.example.org", "xn--bcher-kva.example", "Board.example.org."])
def test_names_of_all_kinds_are_allowed(name):
    hosts = AllowedHosts("127.0.0.1", [name])
    assert hosts.allow(name)
    assert hosts.allow(f"{name}:80")


@pytest.mark.parametrize("listen", ["h:65536", "h:-1", "h:" + "9" * 5000, "h:", ":1", "h", "", "h:\u00b2", "[::1]"])
def test_an_address_to_listen_at_that_is_none_is_a_sentence(listen):
    with pytest.raises(ConfigError, match="must be HOST:PORT") as refused:
        HttpPages(lambda _: Page(""), listen)
    assert len(str(refused.value)) < 400

"""The proxy of the soak does to connections what it says."""

import socket
import time

import pytest

from tests.support.proxy import Proxy


@pytest.fixture
def echo(peer):
    """The port of a server that sends back what it gets and, when it is told no more, says so."""

    def behave(connection):
        while piece := connection.recv(1000):
            connection.sendall(piece)
        connection.sendall(b"the end")

    return int(peer(behave).rpartition(":")[2])


@pytest.fixture
def proxy(echo):
    with Proxy(echo) as made:
        yield made


@pytest.fixture
def connection(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as made:
        assert talk(made) == b"hello"
        yield made


def talk(connection, what=b"hello"):
    connection.sendall(what)
    return connection.recv(1000)


def test_a_cut_is_an_error_for_both_sides_and_new_connections_pass(proxy, connection):
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        connection.recv(1000)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as another:
        assert talk(another) == b"hello"
    assert proxy.connections_made == 2


def test_a_torn_connection_carries_half_a_message(proxy, connection):
    proxy.tear()
    connection.sendall(b"hello there!")
    # Only half reached the echo, and its answer did not come through the same tear.
    with pytest.raises(ConnectionResetError):
        connection.recv(1000)


def test_a_stall_holds_back_what_is_sent_until_it_is_over(proxy, connection):
    proxy.stall()
    connection.settimeout(0.3)
    with pytest.raises(TimeoutError):
        talk(connection)
    proxy.heal()
    connection.settimeout(5)
    assert connection.recv(1000) == b"hello"


def test_a_delay_counts_in_both_directions(proxy, connection):
    proxy.delay(0.1)
    began = time.monotonic()
    assert talk(connection) == b"hello"
    assert time.monotonic() - began >= 0.2
    proxy.heal()
    assert talk(connection) == b"hello"


def test_a_half_closed_connection_goes_on_in_the_other_direction(proxy, connection):
    proxy.half_close(towards_client=False)
    # The server has heard the end, and says its last word.
    assert connection.recv(1000) == b"the end"


def test_a_connection_that_is_half_closed_towards_the_client_ends_for_it(proxy, connection):
    proxy.half_close(towards_client=True)
    assert connection.recv(1000) == b""
    connection.sendall(b"nobody answers")


def test_refused_connections_end_at_once_and_old_ones_go_on(proxy, connection):
    proxy.refuse()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as refused:
        try:
            answer = talk(refused)
        except ConnectionError:
            answer = b""
        assert answer == b""
    assert talk(connection) == b"hello"
    proxy.heal()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as another:
        assert talk(another) == b"hello"

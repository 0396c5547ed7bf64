"""How many descriptors connections get, and how the shortage of them is told."""

from __future__ import annotations

import errno
import logging
import resource

import pytest

from seamark.broker.config.settings import BrokerSettings
from seamark.broker.event_loop import python_event_loop
from seamark.broker.sharing import file_limits


@pytest.mark.parametrize(
    ("limit", "connections", "by_default", "segments"),
    [
        (20, 4, 10, 4),
        (64, 48, 32, 8),
        (256, 240, 128, 32),
        (1024, 960, 512, 128),
        (20_000, 19_744, 10_000, 2500),
        (1_048_576, 1_048_320, 10_000, 4096),
        (resource.RLIM_INFINITY, (1 << 30) - 256, 10_000, 4096),
    ],
)
def test_some_descriptors_are_kept_and_half_are_connections_by_default(
    monkeypatch, limit, connections, by_default, segments
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert file_limits.connection_descriptors() == connections
    assert file_limits.most_open_segments() == segments
    assert BrokerSettings({})["max.connections"] == by_default
    assert BrokerSettings({"max.connections": "7"})["max.connections"] == 7


def test_the_limit_is_raised_as_far_as_the_system_allows(monkeypatch):
    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    file_limits.raise_open_file_limit()
    assert raised == [(4096, 4096)]


def test_a_limit_that_cannot_be_raised_stays(monkeypatch):
    def refuse(*_):
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    file_limits.raise_open_file_limit()


def test_connections_that_cannot_be_accepted_are_one_line_and_other_errors_a_traceback(caplog):
    loop = python_event_loop()
    try:
        for _ in range(5):
            loop.call_exception_handler(
                {"message": "socket.accept() out of system resource", "exception": OSError(errno.EMFILE, "too many")}
            )
        assert caplog.text.count("a connection could not be accepted") == 1
        loop.call_exception_handler({"message": "something else", "exception": OSError(errno.EIO, "broken")})
    finally:
        loop.close()
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]

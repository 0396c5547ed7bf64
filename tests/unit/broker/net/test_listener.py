"""Addresses that a node binds and tells."""

import pytest

from seamark.broker.net.listener import Listener


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False)],
)
def test_loopback_is_what_other_machines_do_not_reach(host, expected):
    assert Listener("PLAINTEXT", host, 0).is_loopback is expected

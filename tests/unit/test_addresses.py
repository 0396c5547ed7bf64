"""HOST:PORT is read one way everywhere, and what is wrong with it is told with the option's name."""

import pytest

from seamark.addresses import Address, parse_address
from seamark.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("broker.example.org:65535", Address("broker.example.org", 65535)),
        ("[::1]:9092", Address("::1", 9092)),
    ],
)
def test_an_address_is_read_and_written_alike(text, address):
    assert parse_address("listen", text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("host", "HOST:PORT with a port from 0 to 65535"),
        ("host:", "HOST:PORT with a port"),
        ("host:70000", "HOST:PORT with a port"),
        ("host:٣", "HOST:PORT with a port"),
        ("::1:90", "must be in brackets"),
        ("[host]:90", "must be in brackets"),
        (":90", r"use 0\.0\.0\.0 for all addresses"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text, reason):
    with pytest.raises(ConfigError, match=f"^listen='.*': .*{reason}"):
        parse_address("listen", text)

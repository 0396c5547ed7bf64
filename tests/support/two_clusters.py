"""Fixtures: two embedded brokers for moves between clusters, and the command as a user runs it."""

import pytest

from seamark import Broker
from seamark.client import Admin
from tests.support.commands import command_runner

SETTINGS = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture(scope="module")
def clusters():
    with Broker(settings=SETTINGS) as first, Broker(settings=SETTINGS) as second:
        yield first, second


@pytest.fixture
def admins(clusters):
    with (
        Admin(bootstrap_servers=clusters[0].bootstrap) as first,
        Admin(bootstrap_servers=clusters[1].bootstrap) as second,
    ):
        yield first, second


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.delenv("SEAMARK_BOOTSTRAP", raising=False)
    return command_runner(capsys, monkeypatch)

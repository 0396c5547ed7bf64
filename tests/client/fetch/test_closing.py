"""A consumer that is closed does not wait for its open fetch, and leaves no fetch session behind."""

from __future__ import annotations

import pytest

from seamark import Broker
from seamark.client import Consumer, Producer


@pytest.mark.parametrize("group_id", ["g", None])
def test_the_session_is_freed_although_a_fetch_waits_for_records(group_id: str | None) -> None:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", b"1")
        sessions = broker._server.nodes[0].fetch_sessions
        config = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 60_000}
        with Consumer(config if group_id is None else {**config, "group.id": group_id}) as consumer:
            if group_id is None:
                consumer.assign([("t", 0)])
            else:
                consumer.subscribe(["t"])
            while not consumer.poll(1.0):
                pass
            # The next fetch is on its way or waits for records by now.
            consumer.poll(0.05)
            assert broker._call(lambda: len(sessions._sessions)) == 1
        assert broker._call(lambda: len(sessions._sessions)) == 0

"""Where a topic's value comes from."""

from seamark.broker.config.settings import BrokerSettings
from seamark.broker.config.topic_configs import TOPIC_KEYS, effective


def test_retention_comes_from_the_most_precise_key():
    key = TOPIC_KEYS["retention.ms"]
    hours = BrokerSettings({"log.retention.hours": 2})
    assert effective(key, {}, hours).value == 7_200_000
    minutes = BrokerSettings({"log.retention.hours": 2, "log.retention.minutes": 3})
    assert effective(key, {}, minutes).value == 180_000
    assert effective(key, {}, BrokerSettings({"log.retention.minutes": -1})).value == -1
    assert effective(key, {"retention.ms": 9}, minutes).value == 9

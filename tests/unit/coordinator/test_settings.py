"""Settings under Kafka's keys."""

import pytest

from seamark.coordinator import Settings, setting_keys
from seamark.errors import ConfigError

DEFAULTS = {
    "group.min.session.timeout.ms": 6000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.max.size": 2_147_483_647,
    "group.initial.rebalance.delay.ms": 3000,
    "offsets.commit.timeout.ms": 5000,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
    "offset.metadata.max.bytes": 4096,
}


# covers: D4, D6, D16, F9, F18, F29
def test_the_defaults_are_kafkas():
    assert set(setting_keys()) == set(DEFAULTS)
    assert Settings.from_keys(DEFAULTS) == Settings()
    assert Settings().retention_ms == 7 * 24 * 3600 * 1000
    # covers D31 as well: the time of a brand-new member is not configurable in Kafka.
    assert Settings().new_member_timeout_ms == 300_000


def test_values_may_be_texts_and_other_keys_are_left_alone():
    settings = Settings.from_keys({"group.max.size": "12", "log.segment.bytes": "x"})
    assert settings == Settings(max_group_size=12)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("group.max.size", 0, "must be between 1 and"),
        ("group.max.size", "many", "must be a whole number"),
        ("group.max.size", True, "must be a whole number"),
        ("group.max.size", 1.5, "must be a whole number"),
        ("group.initial.rebalance.delay.ms", -1, "must be between 0"),
        ("offset.metadata.max.bytes", 2**31, "must be between 0"),
        ("offsets.retention.minutes", 0, "must be between 1"),
        ("group.max.session.timeout.ms", 5999, "must not be below group.min.session.timeout.ms=6000"),
    ],
)
def test_bad_values_are_refused_with_the_key_and_the_reason(key, value, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        Settings.from_keys({key: value})
    assert caught.value.option == key

"""Settings are checked when they are made, in one sentence that names the option."""

import pytest

from seamark.errors import ConfigError
from seamark.parallel.settings import SHORT_METADATA, Batch, Commit, Settings


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("order", "key"),
        ("concurrency", 0),
        ("concurrency", 1.5),
        ("batch", 500),
        ("delivery", "exactly_once"),
        ("retry", 3),
        ("then", "stop"),
        ("commit", 1.0),
        ("buffer_bytes", 0),
        ("buffer_records", 0),
        ("done_ahead", -1),
        ("done_ahead", "yes"),
        ("drain", -0.1),
        ("stall_after", float("nan")),
    ],
)
def test_a_wrong_value_is_named(option, value):
    with pytest.raises(ConfigError) as caught:
        Settings(**{option: value})
    assert caught.value.option == option
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keywords", [{"records": 0}, {"wait": -1}])
def test_a_batch_that_cannot_be_is_refused(keywords):
    with pytest.raises(ConfigError):
        Batch(**keywords)


def test_the_map_may_be_off_capped_or_as_long_as_the_broker_allows():
    assert Settings().metadata_length == 4096
    assert Settings(done_ahead=False).metadata_length == 0
    assert Settings(done_ahead=SHORT_METADATA).metadata_length == 126
    assert Settings(done_ahead=9_999, commit=Commit(metadata_length=512)).metadata_length == 512

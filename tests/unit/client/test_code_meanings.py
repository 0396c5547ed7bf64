"""Error codes in words."""

import pytest

from seamark.client.code_meanings import meaning_of
from seamark.wire.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_TIMESTAMP])
def test_what_a_write_is_refused_with_has_words(code):
    assert str(int(code)) not in meaning_of(code)

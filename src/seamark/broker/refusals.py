"""A request, or a part of one, that is refused with one of Kafka's error codes and a sentence.

RequestRefused(code, reason)
+- ToldRefusal            the answer tells the reason in words
|  +- NoBatch             the bytes are none
|  +- TooMuchToRead       a batch unfolds to more than the broker reads
+- RefusedByLog           the batch reached its log, whose start the answer tells
   +- RecordsRefused      single records spoil their batch
"""

from __future__ import annotations

from seamark.counts import shortened
from seamark.errors import SeamarkError
from seamark.wire.protocol.error_codes import ErrorCode

# What a client sent may be in a sentence, and no answer has room for all that a client may send.
_LONGEST_REASON = 1000


class RequestRefused(SeamarkError):
    """Raised by what handlers call; a handler turns it into its response."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        reason = shortened(reason, _LONGEST_REASON)
        super().__init__(reason)
        self.code = code
        self.reason = reason


class ToldRefusal(RequestRefused):
    """A refusal that nobody would understand from its code alone."""


class NoBatch(ToldRefusal):
    """What should be a batch has a head that none can have."""


class TooMuchToRead(ToldRefusal):
    """A batch that is small as it was sent, and beyond a bound of the broker when it is read.

    Its code makes a producer split the batch, and send the halves.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, reason)


class RefusedByLog(RequestRefused):
    """A batch that does not go with what is in its log."""


class RecordsRefused(RefusedByLog):
    """Single records spoil their batch: ``records`` holds the number of each in it, and why."""

    def __init__(self, code: ErrorCode, reason: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, reason)
        self.records = records

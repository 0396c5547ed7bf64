"""What confluent-kafka's errors mean for the parallel consumer: which end it, and which hold for a whole commit."""

from __future__ import annotations

from typing import Any

from seamark.errors import SeamarkError
from seamark.parallel.core.ports import MetadataTooLong
from seamark.readable_log import readable_logger

try:
    import confluent_kafka
except ImportError:  # ConfluentPort says which extra is missing
    confluent_kafka = None  # type: ignore[assignment]

_log = readable_logger("seamark.parallel")

# Errors about the member or its group: they hold for every partition of a commit.
_FOR_ALL: frozenset[int] = frozenset()
if confluent_kafka is not None:
    _codes = confluent_kafka.KafkaError
    _FOR_ALL = frozenset(
        {
            _codes.ILLEGAL_GENERATION,
            _codes.UNKNOWN_MEMBER_ID,
            _codes.FENCED_INSTANCE_ID,
            _codes.REBALANCE_IN_PROGRESS,
            _codes.GROUP_AUTHORIZATION_FAILED,
            _codes._STATE,
        }
    )


class ConfluentError(SeamarkError):
    """What confluent-kafka said, with its own error in ``cause``; ``is_retriable`` is its own opinion."""

    def __init__(self, what: str, cause: Any) -> None:
        super().__init__(f"{what}: {cause.str() if hasattr(cause, 'str') else cause}")
        self.cause = cause
        self.is_retriable = bool(hasattr(cause, "retriable") and cause.retriable())


def is_for_all(error: Any) -> bool:
    return bool(error.retriable() or error.code() in _FOR_ALL)


def not_sent(error: Exception) -> BaseException:
    cause = error.args[0] if isinstance(error, confluent_kafka.KafkaException) else error
    return ConfluentError("the commit was not sent", cause)


def commit_error(what: str, error: Any) -> BaseException:
    codes = confluent_kafka.KafkaError
    if error.code() in (codes.OFFSET_METADATA_TOO_LARGE, codes.INVALID_COMMIT_OFFSET_SIZE):
        return MetadataTooLong(f"{what}: {error.str()}")
    return ConfluentError(what, error)


def raise_if_fatal(error: Any) -> None:
    """Most errors between the records tell of troubles that it overcomes by itself; the others end the consumer."""
    codes = confluent_kafka.KafkaError
    if error.fatal() or error.code() in (
        codes.TOPIC_AUTHORIZATION_FAILED,
        codes.GROUP_AUTHORIZATION_FAILED,
        codes._AUTHENTICATION,
        codes._AUTO_OFFSET_RESET,
        codes._BAD_MSG,
        # A damaged log does not heal: the broker's word for it, and librdkafka's for a batch that it would step over.
        codes.INVALID_MSG,
        codes._NOT_IMPLEMENTED,
    ):
        raise ConfluentError("confluent-kafka cannot continue", error)
    _log.warning("confluent-kafka: %s", error.str())

"""What the batches of a log say about its producers and leader epochs, for a log that was just opened.

Only headers are looked at: no record is decoded. The log was checked by its opening, so a batch that cannot be read
here is damage that the next read reports; the walk ends there.
"""

from __future__ import annotations

from seamark.broker.log.leader_epochs import LeaderEpochs
from seamark.broker.log.producer_states import ProducerStates
from seamark.errors import DecodeError
from seamark.readable_log import readable_logger
from seamark.storage.errors import LogError
from seamark.storage.log import Log
from seamark.wire.records.record_batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD

_log = readable_logger("seamark.broker")
_CHUNK_BYTES = 4 << 20


def replay_headers(log: Log, producers: ProducerStates, epochs: LeaderEpochs) -> None:
    """Fill ``producers`` and ``epochs`` from the log's batches."""
    offset = log.log_start
    try:
        while offset < log.log_end:
            content = log.read(offset, _CHUNK_BYTES)
            if len(content) < HEADER_BYTES:
                return
            position = 0
            while position < len(content):
                header = HEADER.unpack_from(content, position)
                base, length, epoch, _, _, _, delta, _, max_ms, producer_id, producer_epoch, sequence, _ = header
                epochs.begin(epoch, base)
                if producer_id >= 0 and sequence >= 0:
                    producers.note(producer_id, producer_epoch, sequence, delta + 1, base, base + delta, max_ms)
                offset = base + delta + 1
                position += length + LENGTH_OVERHEAD
    except (LogError, DecodeError) as error:
        _log.warning(
            "%s: producers and leader epochs are known only up to offset %d (%s)", log.directory, offset, error
        )

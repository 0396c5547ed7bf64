"""What can be wrong with a position beyond what every client error covers: a log that was truncated below it."""

from __future__ import annotations

from seamark.client.core.assignment_state import Position
from seamark.client.errors import PositionError
from seamark.topic_partition import TopicPartition


class LogTruncated(PositionError):
    """Records that were read are gone and auto.offset.reset is none; ``divergence`` is where the logs part."""

    def __init__(self, partition: TopicPartition, position: Position, divergence: Position | None) -> None:
        where = "at an unknown offset" if divergence is None else f"at offset {divergence.offset}"
        super().__init__(
            f"the log of {partition} was truncated: it differs from what was read up to offset {position.offset} "
            f"{where}, and auto.offset.reset=none forbids to go back by itself",
            (partition,),
        )
        self.position = position
        self.divergence = divergence

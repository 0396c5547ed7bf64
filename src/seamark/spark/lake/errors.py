"""Errors of tasks as one sentence: Spark wraps what a task raised into pages of Python and Java traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from seamark.errors import SeamarkError

TOPIC = "__consumer_offsets"
_SENTENCE = re.compile(r"^(seamark(?:\.\w+)+|MemoryError|OSError|PermissionError|FileNotFoundError): (.*)$")


class LakeJobFailed(SeamarkError):
    """A task could not do its part; nothing was published."""


class TopicNotReadable(LakeJobFailed):
    """The offsets topic may not be read with these credentials."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{TOPIC} cannot be read ({reason}): grant the READ and DESCRIBE ACLs on the topic, or use the sampler, "
            "which asks the coordinators instead"
        )
        self.reason = reason

    def __reduce__(self) -> tuple[type[TopicNotReadable], tuple[str]]:
        return type(self), (self.reason,)


def is_refusal(sentence: str) -> bool:
    """Whether an error says that a topic may not be read; a group that may not be described is another matter."""
    return "TOPIC_AUTHORIZATION_FAILED" in sentence


@contextmanager
def translated() -> Iterator[None]:
    """Let what fails in a Spark job out as LakeJobFailed with the task's own sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        told = sentence_of(str(error))
        if told is None:
            raise
        if is_refusal(told):
            raise TopicNotReadable(told) from None
        raise LakeJobFailed(f"the job stopped and nothing was published: {told}") from None


def sentence_of(text: str) -> str | None:
    """The last sentence of ours in Spark's error."""
    sentences = [match[2] for line in text.splitlines() if (match := _SENTENCE.match(line.strip()))]
    return sentences[-1].partition(" SQLSTATE")[0] if sentences else None

"""Answers about many things at once: each has its value or its error, and raising is the caller's choice.

results = admin.create_topics([NewTopic("a"), NewTopic("b")])
results.errors          # {"b": Refused("CreateTopics of topic 'b': TOPIC_ALREADY_EXISTS …")}
results["a"]            # the value; results["b"] raises its error
results.raise_if_failed()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

from seamark.client.errors import ClientError

K = TypeVar("K")
V = TypeVar("V")


class SomeFailed(ClientError):
    """Some of the things asked for failed; ``errors`` says which, and how."""

    def __init__(self, errors: Mapping[Any, ClientError], asked: int) -> None:
        first = next(iter(errors.values()))
        more = f" (and {len(errors) - 1} more of {asked})" if len(errors) > 1 else ""
        super().__init__(f"{first}{more}")
        self.errors = dict(errors)
        self.is_retriable = all(error.is_retriable for error in errors.values())


class Results(Mapping[K, V], Generic[K, V]):
    """A mapping of what succeeded; ``errors`` has the rest. Together they cover what was asked for."""

    __slots__ = ("errors", "values_by_key")

    def __init__(self, values_by_key: dict[K, V], errors: dict[K, ClientError]) -> None:
        self.values_by_key = values_by_key
        self.errors = errors

    def __getitem__(self, key: K) -> V:
        if key in self.errors:
            raise self.errors[key]
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)

    def __contains__(self, key: object) -> bool:
        return key in self.values_by_key

    def raise_if_failed(self) -> Self:
        """Raise the one error, or SomeFailed for several; otherwise give the results themselves."""
        if len(self.errors) == 1:
            raise next(iter(self.errors.values()))
        if self.errors:
            raise SomeFailed(dict(self.errors), len(self.errors) + len(self.values_by_key))
        return self

    def __repr__(self) -> str:
        return f"Results({self.values_by_key!r}, errors={self.errors!r})"

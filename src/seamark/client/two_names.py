"""Arguments with two names: ours, and the one that users of other Python clients for Kafka know.

>>> one_of("value", None, "value_deserializer", str)
<class 'str'>
"""

from __future__ import annotations

from typing import Any

from seamark.errors import UsageError


def one_of(name: str, given: Any, other_name: str, other: Any) -> Any:
    """The one that was given, or None."""
    if given is not None and other is not None:
        raise UsageError(f"{name}= and {other_name}= are the same argument: pass only one of them")
    return other if given is None else given

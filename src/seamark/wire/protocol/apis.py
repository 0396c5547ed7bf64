"""Which APIs there are: found by looking into ``wire.protocol.messages``, so that adding one is adding one file.

Every module there defines one ``…Request`` and one ``…Response`` with the same api key. A module is imported when its
API is first asked for by name; asking by key imports them all, once.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from seamark.errors import BadValue
from seamark.wire.protocol import messages
from seamark.wire.schema.schema import Message, Versions


class Api:
    """One API: its name as Kafka spells it, its key, and the classes of both directions."""

    __slots__ = ("key", "name", "request", "response", "versions")

    def __init__(self, name: str, request: type[Message], response: type[Message]) -> None:
        self.name = name
        self.key = request.api_key
        self.request = request
        self.response = response
        self.versions: Versions = request.versions

    def __repr__(self) -> str:
        return f"<{self.name} key={self.key} versions={self.versions!r}>"


def _load(module_name: str) -> Api:
    module = importlib.import_module(f"{messages.__name__}.{module_name}")
    requests, responses = (
        [
            value
            for name, value in vars(module).items()
            if name.endswith(ending) and isinstance(value, type) and issubclass(value, Message)
        ]
        for ending in ("Request", "Response")
    )
    if len(requests) != 1 or len(responses) != 1 or requests[0].api_key != responses[0].api_key:
        raise AssertionError(f"{module.__name__} must define one request and one response with the same api key")
    return Api(requests[0].__name__.removesuffix("Request"), requests[0], responses[0])


@cache
def all_apis() -> dict[int, Api]:
    """Every API by key."""
    names = sorted(module.name for module in pkgutil.iter_modules(messages.__path__))
    return {loaded.key: loaded for loaded in sorted(map(_load, names), key=lambda loaded: loaded.key)}


def api(key: int) -> Api:
    """The API with this key; BadValue for one that this build does not have.

    >>> api(8)
    <OffsetCommit key=8 versions=0-9>
    """
    known = all_apis().get(key)
    if known is None:
        raise BadValue("request_api_key", 0, f"there is no API with key {key}")
    return known


@cache
def api_named(name: str) -> Api:
    """The API with Kafka's name for it, such as "OffsetCommit"; KeyError if there is none."""
    module_name = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
    try:
        return _load(module_name)
    except ModuleNotFoundError:
        raise KeyError(name) from None

"""Seamark: how far has this Kafka consumer group safely got?

Importing this package costs next to nothing: every part is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seamark._version import __version__

if TYPE_CHECKING:
    from seamark.broker.embedded import Broker
    from seamark.broker.security.security import Acl, Security, Tls

__all__ = ["Acl", "Broker", "Security", "Tls", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from seamark.broker.embedded import Broker

        return Broker
    if name in ("Acl", "Security", "Tls"):
        from seamark.broker.security import security

        return getattr(security, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

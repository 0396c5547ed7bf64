"""The embedded broker: an asyncio shell around the coordinator and the log, one thin handler per API.

``Broker`` is loaded when it is first asked for: importing a part of this package costs no event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.broker.embedded import Broker
    from seamark.broker.security.security import Acl, Security, Tls

__all__ = ["Acl", "Broker", "Security", "Tls"]


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from seamark.broker.embedded import Broker

        return Broker
    if name in ("Acl", "Security", "Tls"):
        from seamark.broker.security import security

        return getattr(security, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

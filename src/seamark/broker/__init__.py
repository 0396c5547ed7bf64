"""The embedded broker: an asyncio shell around the coordinator and the log, one thin handler per API.

Names are loaded when they are first asked for: importing a part of this package costs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.acls import Acl, Operation, PatternType, PermissionType, ResourceType
    from seamark.broker.embedded import Broker
    from seamark.broker.faults.groups import LoadingHold
    from seamark.broker.faults.requests import Fault, Faults
    from seamark.broker.security.security import Security, Tls
    from seamark.broker.security.users import Users

_HOMES = {
    "seamark.broker.embedded": ("Broker",),
    "seamark.broker.faults.groups": ("LoadingHold",),
    "seamark.broker.faults.requests": ("Fault", "Faults"),
    "seamark.acls": ("Acl", "Operation", "PatternType", "PermissionType", "ResourceType"),
    "seamark.broker.security.security": ("Security", "Tls"),
    "seamark.broker.security.users": ("Users",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acl",
    "Broker",
    "Fault",
    "Faults",
    "LoadingHold",
    "Operation",
    "PatternType",
    "PermissionType",
    "ResourceType",
    "Security",
    "Tls",
    "Users",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)

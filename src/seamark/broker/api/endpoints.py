"""All APIs that are served: every module in ``handlers`` is one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from seamark.broker.api import handlers
from seamark.broker.net.endpoint import Endpoint
from seamark.wire.protocol.apis import api_named
from seamark.wire.schema.schema import Versions


def load_endpoints(limits: Mapping[int, int] | None = None, *, has_zookeeper: bool = False) -> dict[int, Endpoint]:
    """All handlers by api key; ``limits`` gives the newest version of each API, and leaves out those it does not
    name.
    """
    endpoints = {}
    for module_info in pkgutil.iter_modules(handlers.__path__):
        handler: Any = importlib.import_module(f"{handlers.__name__}.{module_info.name}")
        api = api_named(handler.API)
        served: str = handler.VERSIONS
        if has_zookeeper:
            served = getattr(handler, "VERSIONS_WITH_ZOOKEEPER", served)
        versions = Versions(served)
        if limits is not None:
            versions.last = min(versions.last, limits.get(api.key, -1))
        if versions.last >= versions.first:
            endpoints[api.key] = Endpoint(api, handler, versions)
    return dict(sorted(endpoints.items()))

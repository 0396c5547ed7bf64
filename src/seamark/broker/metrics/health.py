"""Whether the broker is alive and whether it is ready for clients, for whoever starts it and waits.

Alive means that the event loop answers at all. Ready means that a node serves and that no offsets partition of a
running node is still being loaded.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from seamark.broker.metrics.collection import MeasuredBroker
from seamark.http_pages import Page

JSON = "application/json"


def why_not_ready(broker: MeasuredBroker) -> str | None:
    running = [node for node in broker.nodes if node.is_running]
    if not running:
        return "no node runs"
    loading = [str(node.id) for node in running if node.groups.is_loading]
    if loading:
        return f"groups are being loaded on node {', '.join(loading)}"
    return None


def live_page() -> Page:
    return Page(json.dumps({"status": "live"}) + "\n", content_type=JSON)


def ready_page(broker: MeasuredBroker) -> Page:
    reason = why_not_ready(broker)
    answer: dict[str, object] = {"status": "ready" if reason is None else "not ready"}
    if reason is not None:
        answer["reason"] = reason
    answer["nodes"] = {str(node.id): "running" if node.is_running else "stopped" for node in broker.nodes}
    status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(json.dumps(answer) + "\n", status, JSON)

"""Writes the orders: most of them at once, the rest evenly over some seconds while consumers work.

The second part is what makes the story a live one: a group that is blocked must be seen to stay where it is while new
records come in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seamark.client import Producer
from seamark.errors import SeamarkError
from seamark.quickstart.orders import Order

_TICK_S = 0.05


def write(config: Mapping[str, Any], topic: str, orders: Iterable[Order], reached: Callable[[int], None]) -> None:
    """Write and wait until all is acknowledged; DeliveryFailed if an order was refused."""
    with Producer({**config, "linger.ms": 5}) as producer:
        for number, order in enumerate(orders, 1):
            producer.send(topic, order.value, key=order.key)
            if number % 500 == 0:
                reached(number)


class LiveTraffic:
    """Writes orders in a thread, spread over ``seconds``, once ``may_begin`` says so; ``with`` ends it early."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        orders: list[Order],
        seconds: float,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self._config = dict(config)
        self._topic = topic
        self._orders = orders
        self._seconds = seconds
        self._may_begin = may_begin
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="seamark-quickstart-traffic", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> LiveTraffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def raise_if_failed(self) -> None:
        """SeamarkError if an order could not be written."""
        if self._error is not None:
            raise SeamarkError(f"writing new orders failed: {self._error}") from self._error

    def _work(self) -> None:
        try:
            self._write()
        except SeamarkError as error:
            self._error = error

    def _write(self) -> None:
        while not self._may_begin():
            if self._stopping.wait(_TICK_S):
                return
        started = time.monotonic()
        with Producer(self._config) as producer:
            sent = 0
            while sent < len(self._orders) and not self._stopping.wait(_TICK_S):
                due = round(len(self._orders) * min(1.0, (time.monotonic() - started) / self._seconds))
                for order in self._orders[sent:due]:
                    producer.send(self._topic, order.value, key=order.key)
                sent = max(sent, due)

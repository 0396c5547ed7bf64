"""Looks at groups and logs while the story goes on, for the lake: a commit alone does not say what was unread.

A look is the lake's own (``spark.lake.fill.sampler_rows``), made in a thread here because Spark is still starting
then. The files are in the lake's directory at once and become part of it by ``publish``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seamark.errors import SeamarkError
from seamark.readable_log import readable_logger

if TYPE_CHECKING:
    from seamark.spark.lake import Lake
    from seamark.spark.lake.fill.reports import Look
    from seamark.spark.lake.tables.manifest import File

_log = readable_logger("seamark.quickstart")
_EVERY_S = 1.0
# On a large cluster a look takes long: this share of the time at most is spent looking.
_SHARE = 0.5


class Looks:
    """``with Looks(lake, config): ...`` looks until the end of the block, and once more at its end."""

    def __init__(self, lake: Lake, config: Mapping[str, Any]) -> None:
        self._lake = lake
        self._config = dict(config)
        self._taken: list[Look] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="seamark-quickstart-looks", daemon=True)

    def __enter__(self) -> Looks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def last_ms(self) -> int:
        """When the last look was taken; 0 before the first."""
        return self._taken[-1].time_ms if self._taken else 0

    def publish(self) -> None:
        """Make what was seen a version of the lake."""
        added: dict[str, list[File]] = {}
        for look in self._taken:
            for table, file in look.files:
                added.setdefault(table, []).append(file)
        if added:
            with self._lake.writing():
                self._lake.publish(added, sampled_ms=max(look.time_ms for look in self._taken))

    def _work(self) -> None:
        from seamark.spark.lake.fill.sampler_rows import write_look

        while True:
            is_last = self._ending.is_set()
            began = time.monotonic()
            try:
                self._taken.append(write_look(str(self._lake.path), self._config, None))
            except SeamarkError as error:
                # One look less; the others are enough for what the audit looks for.
                _log.warning("sampling the groups failed: %s", error)
            if is_last:
                return
            self._ending.wait(max(_EVERY_S, (time.monotonic() - began) / _SHARE))

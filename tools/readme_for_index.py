"""The README as a package index shows it: hatchling calls this while it builds.

An index has no other file of the repository, so a relative link would lead nowhere: its text stays, an image goes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)")


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme``, which ``pyproject.toml`` declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_relative_links(text)}


def without_relative_links(text: str) -> str:
    """Markdown without links to files.

    >>> without_relative_links("see [plans](docs/plans.md) and [Kafka](https://kafka.apache.org)")
    'see plans and [Kafka](https://kafka.apache.org)'
    """
    return _LINK.sub(r"\1", _IMAGE.sub("", text))

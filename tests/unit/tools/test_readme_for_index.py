"""What a package index shows of the README has no link that leads nowhere."""

import re
from pathlib import Path

from tools.readme_for_index import ReadmeHook

ROOT = Path(__file__).parents[3]


def test_every_link_of_the_packages_readme_is_absolute():
    metadata = {}
    ReadmeHook(str(ROOT), {}).update(metadata)
    text = metadata["readme"]["text"]
    assert [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith("https://")] == []
    assert "an embedded broker: real sockets" in text
    assert "pip install seamark" in text

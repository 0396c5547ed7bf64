"""The list of known differences, as the document that people read: ``tests/conformance/differences.md``."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tests.conformance.differential.script import Difference

DOCUMENT = Path(__file__).parent.parent / "differences.md"
MOST = 15
_ROW = re.compile(r"^\| `(\S+) (\S+)` \| (.+) \| (.+) \|$")
# What clients act on: here the two brokers must be equal.
_NEVER = re.compile(r"error_code|state$|offset")


class Known(NamedTuple):
    """One line of the document."""

    api: str
    field: str
    what: str
    why: str

    def covers(self, difference: Difference) -> bool:
        return fnmatchcase(difference.api, self.api) and fnmatchcase(difference.path.replace("[]", ""), self.field)


def known_differences() -> list[Known]:
    rows = [_ROW.match(line) for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    assert all(rows), "a line of differences.md is not `API field`, what, why"
    return [Known(*row.groups()) for row in rows if row is not None]


def is_forbidden(known: Known) -> bool:
    """Whether a line would excuse what must not differ."""
    return bool(_NEVER.search(known.field)) or known.field == "*"


def unexplained(found: list[Difference], known: list[Known]) -> list[str]:
    return [str(each) for each in found if not any(line.covers(each) for line in known)]

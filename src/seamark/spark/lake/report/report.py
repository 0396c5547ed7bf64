"""The report: one HTML file that needs nothing else, and the same content as JSON.

The page's script and style are ours and lie in the file; its policy allows exactly these two by their hashes and no
network at all, so a group called ``<script>`` is a name and nothing more. Files appear whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import UsageError
from seamark.readable_text import readable_json
from seamark.spark.lake.report.content import content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.spark.lake.tables.lake import Lake

_ASSETS = files("seamark.spark.lake.report") / "assets"
# In the order in which they build upon each other; they become one script.
_SCRIPTS = ("values.js", "charts.js", "groups.js", "detail.js", "findings.js", "page.js")


def write_report(
    spark: SparkSession, lake: Lake, html_path: str | Path | None, json_path: str | Path | None = None
) -> dict[str, Any]:
    """Write the report of a lake as a page, as JSON, or as both; gives what it says."""
    made = content(spark, lake)
    if html_path is not None:
        write_whole(Path(html_path), page(made))
    if json_path is not None:
        write_whole(Path(json_path), json_text(made) + "\n")
    return made


def json_text(made: dict[str, Any]) -> str:
    return readable_json(made, separators=(",", ":"))


def page(made: dict[str, Any]) -> str:
    """The HTML file of a report's content."""
    style = _asset("report.css")
    script = '"use strict";\n' + "\n".join(_asset(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none';"
        " form-action 'none'; img-src data:"
    )
    # Within a script element only "</script" and "<!--" end or change the text: no "<" stays as it is.
    embedded = json_text(made).replace("<", "\\u003c")
    text = _asset("report.html")
    for name, part in (("POLICY", policy), ("STYLE", style), ("SCRIPT", script), ("CONTENT", embedded)):
        # One place each, and the content last, so that nothing in it is taken for a place.
        before, mark, after = text.partition(f"{{{{{name}}}}}")
        assert mark, name
        text = before + part + after
    return text


def write_whole(path: Path, text: str) -> None:
    """The file with all of the text; whoever has the old one keeps it until then."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        # A temporary file is its maker's alone; a report is for those who may read what the maker writes.
        mask = os.umask(0)
        os.umask(mask)
        Path(draft).chmod(0o666 & ~mask)
        Path(draft).replace(path)
    except OSError as error:
        Path(draft).unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

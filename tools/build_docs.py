"""Builds the documents as pages: ``make docs``, or ``python -m tools.build_docs [DIRECTORY]``.

Any warning of MkDocs is an error: a link or an anchor that leads nowhere, a document that the index does not name, a
public name without a home. Examples are executed by the tests; ``tests/architecture`` fails for one that is not.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.build_docs_pages import PUBLIC_MODULES

ROOT = Path(__file__).parents[1]


class BuildFailed(Exception):
    """The pages were not built; the text has a line per complaint."""


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def build(directory: Path, documents: Path = ROOT / "docs", modules: Sequence[str] = PUBLIC_MODULES) -> int:
    """Build the pages, with a reference of those modules, and give their number; BuildFailed if anything is wrong."""
    try:
        import mkdocstrings  # noqa: F401 - a plugin of the build
        from mkdocs.commands.build import build as build_site
        from mkdocs.config import load_config
        from mkdocs.exceptions import MkDocsException
    except ModuleNotFoundError as missing:
        raise BuildFailed(f"needs the Python packages mkdocs and mkdocstrings[python] ({missing})") from None
    complaints = _Complaints()
    loggers = [logging.getLogger("mkdocs"), logging.getLogger("griffe")]
    for logger in loggers:
        logger.addHandler(complaints)
    try:
        config = load_config(
            str(ROOT / "mkdocs.yml"), docs_dir=str(documents), site_dir=str(directory), extra={"modules": modules}
        )
        config.plugins.run_event("startup", command="build", dirty=False)
        try:
            build_site(config)
        finally:
            config.plugins.run_event("shutdown")
    except MkDocsException as error:
        raise BuildFailed("\n".join([*complaints.lines, str(error)])) from error
    finally:
        for logger in loggers:
            logger.removeHandler(complaints)
    if complaints.lines:
        raise BuildFailed("\n".join(complaints.lines))
    return sum(1 for _ in directory.rglob("*.html"))


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    try:
        pages = build(directory)
    except BuildFailed as failed:
        sys.exit(f"seamark: the documents are not built:\n{failed}")
    print(f"{pages} pages: {directory / 'index.html'}")


if __name__ == "__main__":
    main()

"""What the docs build adds to the files under docs/: the navigation, the reference, and files from outside.

- The navigation is docs/index.md itself: its sections and the documents that each links to, in that order; the others
  follow. A document that nothing links to is an error of the build: nobody would find it.
- A page of the reference per public module has the docstrings of its ``__all__``.
- A link that leaves docs/ (an example program, a list beside the tests) is given a copy of that file to lead to.

MkDocs calls the functions whose names begin with ``on_``.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

# The public surface, as pages of the reference; what is in none of them may change without notice.
PUBLIC_MODULES = (
    "seamark",
    "seamark.client",
    "seamark.client.errors",
    "seamark.parallel",
    "seamark.spark",
    "seamark.testing",
    "seamark.plans",
    "seamark.errors",
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?![a-z]+:)([^)#\s]+)")
_ANY_LINK = re.compile(r"(\]\()(?![a-z]+:)([^)#\s]+)")
_COPIES = "files"


class BadDocuments(Exception):
    """The documents do not fit together; the text is one sentence."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    from mkdocs.exceptions import PluginError

    documents = Path(config.docs_dir)
    written = {
        path.relative_to(documents).as_posix(): path.read_text(encoding="utf-8") for path in documents.rglob("*.md")
    }
    try:
        config.nav = navigation(
            written, (ROOT / "README.md").read_text(encoding="utf-8"), config.extra.get("modules", PUBLIC_MODULES)
        )
    except BadDocuments as error:
        raise PluginError(str(error)) from error
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for module in config.extra.get("modules", PUBLIC_MODULES):
        files.append(File.generated(config, reference_path(module), content=reference_page(module)))
    for path in sorted(Path(config.docs_dir).rglob("*.md")):
        source = path.relative_to(config.docs_dir).as_posix()
        for target in outside_targets(source, path.read_text(encoding="utf-8")):
            copy = f"{_COPIES}/{target}"
            if files.get_file_from_path(copy) is None:
                # A Markdown file would be made a page of the site, with links of its own.
                content = (ROOT / target).read_bytes()
                files.append(File.generated(config, copy.replace(".md", ".txt"), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    return with_copies(page.file.src_uri, markdown)


def navigation(written: dict[str, str], readme: str, modules: Sequence[str] = PUBLIC_MODULES) -> list[Any]:
    """The sections of the index with the documents that each links to, then the others, and then the reference.

    ``written`` has the texts of all documents by their paths. BadDocuments names one that nothing links to.
    """
    sections: dict[str, list[str]] = {}
    section = ""
    for line in written["index.md"].splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
            sections[section] = []
        for target in _targets("index.md", line):
            if section and target in written and not any(target in each for each in sections.values()):
                sections[section].append(target)
    named = {"index.md", *(target for targets in sections.values() for target in targets)}
    linked = {target for path, text in written.items() for target in _targets(path, text)}
    linked |= set(_targets("../README.md", readme))
    for path in sorted(set(written) - named):
        folder = posixpath.dirname(path)
        if path not in linked and folder not in linked:
            raise BadDocuments(f"docs/{path}: no document links to it, so nobody would find it")
        sections.setdefault(folder.capitalize() or "More", []).append(path)
    found: list[Any] = [{"Seamark": "index.md"}]
    found += [{name: targets} for name, targets in sections.items() if targets]
    return [*found, {"Reference": [{module: reference_path(module)} for module in modules]}]


def _targets(source: str, text: str) -> list[str]:
    """What a document links to, as paths under docs/."""
    folder = posixpath.join("docs", posixpath.dirname(source))
    paths = (posixpath.normpath(posixpath.join(folder, target)) for target in _LINK.findall(text))
    return [path.removeprefix("docs/") for path in paths if path.startswith("docs/")]


def reference_path(module: str) -> str:
    return f"reference/{module}.md"


def reference_page(module: str) -> str:
    """A page that has the module's own docstring, and then everything that it exports."""
    lines = [f"# {module}", "", f"::: {module}", "    options:", "      members: false"]
    lines += ["      show_root_heading: false", "      show_root_toc_entry: false"]
    for name in exported_names(module):
        lines += ["", f"::: {module}.{name}"]
    return "\n".join(lines) + "\n"


def exported_names(module: str) -> list[str]:
    """``__all__``, or the classes and functions of a module that has none; read, not imported."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: list[str] = []
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return [name for name in names if not name.startswith("_")]
        if isinstance(statement, ast.ClassDef | ast.FunctionDef) and not statement.name.startswith("_"):
            found.append(statement.name)
    return found


def outside_targets(source: str, markdown: str) -> list[str]:
    """What a document links to beyond docs/, as paths from the repository's root."""
    found = (_from_root(source, target) for _, target in _ANY_LINK.findall(markdown))
    return [target for target in found if target is not None and (ROOT / target).is_file()]


def with_copies(source: str, markdown: str) -> str:
    """The document with its links out of docs/ led to the copies."""

    def led(match: re.Match[str]) -> str:
        target = _from_root(source, match[2])
        if target is None or not (ROOT / target).is_file():
            return match[0]
        copy = f"{_COPIES}/{target}".replace(".md", ".txt")
        return match[1] + posixpath.relpath(copy, posixpath.dirname(source) or ".")

    return _ANY_LINK.sub(led, markdown)


def _from_root(source: str, target: str) -> str | None:
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
    return None if path.startswith(("docs/", "../")) or path == "docs" else path

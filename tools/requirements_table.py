"""Which tests cover which requirement item: docs/requirements-coverage.md, made from comments in the tests.

A comment that starts with item ids, as in ``# D20, F11`` or ``# covers: D5 to D7``, belongs to the test it stands in,
else to the next test of the file, else to the file. Run as a script it rewrites the document; with ``--check`` it
only says whether the document is as it should be and every item has a test.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

from tools.requirement_items import ITEMS, UNTESTED

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "requirements-coverage.md"
SHOWN_TESTS = 6

_ITEM = r"[A-Z]\d{1,2}"
_COMMENT = re.compile(rf"#\s*(?:covers:\s*)?({_ITEM}\b.*)")
_RANGE = re.compile(rf"({_ITEM})\s+to\s+({_ITEM})|({_ITEM})\b")


def items_in(comment: str) -> list[str]:
    """The items a comment names, ranges spelled out.

    >>> items_in("# covers: D5 to D7, F11")
    ['D5', 'D6', 'D7', 'F11']
    >>> items_in("# a remark about D5")
    []
    """
    match = _COMMENT.match(comment)
    if match is None:
        return []
    found: list[str] = []
    for first, last, single in _RANGE.findall(match[1]):
        if single:
            found.append(single)
        elif first[0] == last[0]:
            found += [f"{first[0]}{number}" for number in range(int(first[1:]), int(last[1:]) + 1)]
    return found


def covered_by(path: Path) -> dict[str, list[str]]:
    """By item the names of the file's tests that cover it; an empty name means the file as a whole."""
    text = path.read_text()
    tests = [
        (min([node.lineno, *(each.lineno for each in node.decorator_list)]), node.end_lineno or node.lineno, node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    tests.sort()
    found: dict[str, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            name = next((name for _, last, name in tests if line <= last), "")
            for item in items_in(token.string):
                if name not in found.setdefault(item, []):
                    found[item].append(name)
    return found


def coverage(tests: Path) -> dict[str, list[tuple[str, str]]]:
    """By item the (file, test) pairs that cover it, in the order of files."""
    table: dict[str, list[tuple[str, str]]] = {item: [] for item in ITEMS}
    for path in sorted(tests.rglob("test_*.py")):
        for item, names in covered_by(path).items():
            if item in table:
                table[item] += [(path.relative_to(tests).as_posix(), name) for name in names]
    return table


def missing(table: dict[str, list[tuple[str, str]]]) -> list[str]:
    """Items without a test and without a reason."""
    return [item for item, tests in table.items() if not tests and item not in UNTESTED]


def document(table: dict[str, list[tuple[str, str]]]) -> str:
    lines = [
        "# Requirements and their tests",
        "",
        "Made from the tests by `python -m tools.requirements_table`; not to be edited. The text of each item is in",
        "[requirements.md](requirements.md); comments in the source name items as (C24, F20). Items: A wire protocol,",
        "B coordinator discovery, C membership in the client, D group coordinator, E assignors, F offset commit, fetch",
        "and storage, G ZooKeeper, H committer, I delivery and consumer loops, J partitioners, K fetching, L rights,",
        "M monitoring, N everything else. Paths are below `tests/`.",
        "",
        "| item | what it is about | tests | among them |",
        "|---|---|---|---|",
    ]
    for item, tests in table.items():
        shown = "<br>".join(f"`{file}` {_sentence(name)}" for file, name in tests[:SHOWN_TESTS])
        lines.append(f"| {item} | {ITEMS[item]} | {len(tests)} | {shown or UNTESTED.get(item, '**none**')} |")
    tested = sum(map(bool, table.values()))
    lines += ["", f"{tested} of {len(table)} items have a test; the others say why they have none.", ""]
    return "\n".join(lines)


def _sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def main(arguments: list[str]) -> int:
    table = coverage(ROOT / "tests")
    text = document(table)
    lacking = missing(table)
    if "--check" in arguments:
        is_fresh = DOCUMENT.exists() and DOCUMENT.read_text() == text
        if not is_fresh:
            print(
                "docs/requirements-coverage.md is not up to date: run python -m tools.requirements_table",
                file=sys.stderr,
            )
    else:
        is_fresh = True
        DOCUMENT.write_text(text)
    if lacking:
        print(f"no test covers {', '.join(lacking)}", file=sys.stderr)
    return 0 if is_fresh and not lacking else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""An import-linter contract that is an allow list: what no line allows is forbidden.

import-linter's own contract types say what must not be imported, so a new package would be free to import everything
until somebody thinks of it. Here a package without a line is an error.
"""

from __future__ import annotations

from typing import Any, cast

from importlinter import Contract, ContractCheck, fields, output


class AllowedImports(Contract):
    """Lines of the form ``package -> package, package``, ``package -> (nothing)`` or ``package -> *``.

    A line governs what no longer name has a line of its own for, and what one line governs is free to import each
    other. Several names may stand on the left; ``@name = package, package`` gives a name to a list. A target with
    ``.__init__`` behind it is what the package exports, without the modules in it. What ``everyone`` may import imports
    nothing else itself.
    """

    everyone = fields.ListField(subfield=fields.StringField())
    allowed = fields.ListField(subfield=fields.StringField())

    def check(self, graph: Any, verbose: bool) -> Any:  # noqa: ARG002
        # The contract's options are declared as descriptors, which the checker cannot see through.
        lines: list[str] = cast(Any, self.allowed)
        everyone: list[str] = cast(Any, self.everyone)
        rules = _rules(lines) | {"everyone": ()}
        root = "seamark"
        faults: list[str] = []
        for importer in sorted(m for m in graph.modules if m == root or m.startswith(root + ".")):
            owner = "everyone" if importer in everyone else _longest_match(importer, rules)
            if owner is None:
                faults.append(f"{importer} has no line in the layers table of pyproject.toml")
                continue
            targets = (*rules[owner], *everyone)
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                if not imported.startswith(root + "."):
                    continue
                governing = _longest_match(imported, rules)
                if governing is not None and rules[governing] is rules[owner]:
                    continue
                if not any(target == "*" or _is_in(imported, target) for target in targets):
                    faults.append(f"{importer} imports {imported}, which the line of {owner} does not allow")
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: Any) -> None:
        for fault in check.metadata["faults"]:
            output.print_error(fault)


def _rules(lines: list[str]) -> dict[str, tuple[str, ...]]:
    """What each package may import; packages that stand in one line have the very same tuple."""
    lists: dict[str, tuple[str, ...]] = {}
    rules: dict[str, tuple[str, ...]] = {}
    for line in lines:
        if " = " in line:
            name, _, members = line.partition(" = ")
            lists[name] = _names(members, lists)
            continue
        owners, _, targets = line.partition(" -> ")
        rule = () if targets == "(nothing)" else _names(targets, lists)
        # A copy, because equal tuples of two lines must not be the same object.
        rule = (*rule, f"line of {owners}")
        rules |= dict.fromkeys(_names(owners, lists), rule)
    return rules


def _names(text: str, lists: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    return tuple(each for name in names for each in (lists[name] if name.startswith("@") else (name,)))


def _is_in(module: str, package: str) -> bool:
    if package.endswith(".__init__"):
        return module == package.removesuffix(".__init__")
    return module == package or (package != "seamark" and module.startswith(package + "."))


def _longest_match(module: str, rules: dict[str, tuple[str, ...]]) -> str | None:
    """The line that governs a module: the longest package name that holds it; the root's line governs only itself."""
    matches = [package for package in rules if _is_in(module, package)]
    return max(matches, key=len, default=None)

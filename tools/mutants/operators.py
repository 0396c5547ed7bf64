"""Bugs made by rule: one operator or constant of the source is changed at a time.

Places where a change cannot be seen by design are left out: what goes into logs and error texts, asserts,
annotations, slots and doctests. A mutant is named by its file, function, number and change, so that its name survives
edits elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
# Receivers and names of calls that only talk.
_TALKERS = frozenset({"info", "warn", "warning", "error", "debug"})


class Mutant(NamedTuple):
    """``number`` counts the changes that are possible in the file."""

    name: str
    file: str
    line: int
    number: int


class _Visitor(ast.NodeVisitor):
    """Numbers every possible change; makes the one whose number is ``wanted``."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted = wanted
        self.found: list[tuple[str, int, str]] = []
        self._functions: list[str] = []

    def _offer(self, node: ast.AST, change: str) -> bool:
        self.found.append((".".join(self._functions) or "module", getattr(node, "lineno", 0), change))
        return len(self.found) - 1 == self.wanted

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._functions.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._functions.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._functions.pop()

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__slots__" for target in node.targets):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TALKERS:
            return
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            replacement = _COMPARISONS.get(type(operator))
            if replacement is not None and self._offer(node, f"{type(operator).__name__} to {replacement.__name__}"):
                node.ops[place] = replacement()
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        replacement = _ARITHMETIC.get(type(node.op))
        if replacement is not None and self._offer(node, f"{type(node.op).__name__} to {replacement.__name__}"):
            node.op = replacement()
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        is_and = isinstance(node.op, ast.And)
        if self._offer(node, "And to Or" if is_and else "Or to And"):
            node.op = ast.Or() if is_and else ast.And()
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not) and self._offer(node, "drop not"):
            node.op = ast.UAdd()
            # ``+bool`` is an int of the same truth, for any operand that ``not`` is used on with ``bool`` around it.
            node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
            return
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            if self._offer(node, f"{node.value} to {not node.value}"):
                node.value = not node.value
        elif isinstance(node.value, int) and self._offer(node, f"{node.value} to {node.value + 1}"):
            node.value = node.value + 1


def mutants_of(root: Path, package: str) -> Iterator[Mutant]:
    """All mutants of a package below ``root``, in the order of files and lines."""
    for path in sorted((root / package).rglob("*.py")):
        visitor = _Visitor()
        visitor.visit(ast.parse(path.read_text()))
        counts: dict[str, int] = {}
        file = path.relative_to(root).as_posix()
        for number, (function, line, change) in enumerate(visitor.found):
            place = f"{file}:{function}:{change}"
            counts[place] = counts.get(place, 0) + 1
            yield Mutant(f"{place}:{counts[place]}", file, line, number)


def mutated(text: str, number: int) -> str:
    """The source with one change made; comments and layout are lost.

    >>> mutated("x = a < b and c", 1)
    'x = a <= b and c'
    """
    tree = ast.parse(text)
    _Visitor(number).visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree))

"""Requests about a group's offsets and coordinator are made in one module each, so that all clients send them alike."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "seamark"


def makers_of(request: str) -> set[str]:
    return {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if f"{request}(" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) == request or getattr(node.func, "attr", None) == request)
    }


@pytest.mark.parametrize(
    ("request_name", "home"),
    [
        ("OffsetCommitRequest", "client/group_offsets.py"),
        ("OffsetFetchRequest", "client/group_offsets.py"),
        ("FindCoordinatorRequest", "client/net/coordinators.py"),
    ],
)
def test_a_request_is_made_in_one_module(request_name, home):
    assert makers_of(request_name) == {home}

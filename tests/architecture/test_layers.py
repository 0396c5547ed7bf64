"""The layers contract can fail: a forbidden import and a package without a line are both found."""

import pytest

from tools.allowed_imports import AllowedImports


class Graph:
    """As much of grimp's import graph as the contract looks at."""

    def __init__(self, imports: dict[str, set[str]]) -> None:
        self._imports = imports
        self.modules = set(imports) | {target for targets in imports.values() for target in targets}

    def find_modules_directly_imported_by(self, module: str) -> set[str]:
        return self._imports.get(module, set())


def faults(imports: dict[str, set[str]], allowed: list[str]) -> list[str]:
    contract = AllowedImports(
        name="layers", session_options={}, contract_options={"everyone": ["seamark.errors"], "allowed": allowed}
    )
    return contract.check(Graph(imports), verbose=False).metadata["faults"]


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"seamark.wire.schema.codec": {"seamark.wire.schema.schema", "seamark.errors", "struct"}}, 0),
        ({"seamark.wire.schema.codec": {"seamark.storage.log"}}, 1),
        ({"seamark.storage.log": {"seamark.wire.records"}}, 0),
        ({"seamark.storage.log": {"seamark.wire"}}, 1),
        ({"seamark.newcomer": set()}, 1),
        ({"seamark.errors": {"seamark.wire.records"}}, 1),
        ({"seamark.cli.main": {"seamark.storage.log", "seamark.wire.schema.codec"}}, 0),
        ({"seamark.plans.plan": {"seamark.client"}}, 0),
        ({"seamark.plans.plan": {"seamark.client.records"}}, 1),
    ],
)
def test_an_import_that_no_line_allows_is_a_fault(imports, expected):
    allowed = [
        "seamark.wire -> (nothing)",
        "seamark.storage -> seamark.wire.records",
        "seamark.cli -> *",
        "seamark.client -> (nothing)",
        "seamark.plans -> seamark.client.__init__",
    ]
    assert len(faults(imports, allowed)) == expected

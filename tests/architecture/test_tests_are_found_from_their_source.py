"""The tests' folders are the source's: from a module to its tests, and from a test to what it is about."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "seamark"
TESTS = ROOT / "tests"
# Folders of tests/unit that are about something beside the package.
NOT_OF_THE_PACKAGE = {"benchmarks", "tools"}
# Packages some of whose files are named after what they try, not after a module.
NOT_YET = {"broker", "client", "parallel", "storage", "wire"}


def rooms(kind: str) -> list[Path]:
    """Every folder with tests below ``tests/kind``."""
    folders = {path.parent.relative_to(TESTS / kind) for path in (TESTS / kind).rglob("*.py")} - {Path()}
    return sorted(folder for folder in folders if folder.parts[0] not in NOT_OF_THE_PACKAGE)


@pytest.mark.parametrize("room", rooms("unit"), ids=str)
def test_a_folder_of_unit_tests_is_a_room_of_the_source(room):
    assert (SOURCE / room).is_dir()


@pytest.mark.parametrize("kind", ["cli", "property", "spark"])
def test_a_folder_of_other_tests_is_a_room_of_the_source(kind):
    package = SOURCE if kind == "property" else SOURCE / kind
    assert [str(room) for room in rooms(kind) if not (package / room).is_dir()] == []


@pytest.mark.parametrize("room", rooms("unit"), ids=str)
def test_a_file_of_unit_tests_has_the_name_of_a_module_and_perhaps_an_aspect_of_it(room):
    modules = [path.stem for path in (SOURCE / room).glob("*.py")] + [room.name]
    strangers = [
        path.name
        for path in (TESTS / "unit" / room).glob("test_*.py")
        if not any(path.stem == f"test_{module}" or path.stem.startswith(f"test_{module}_") for module in modules)
    ]
    assert strangers == [] or room.parts[0] in NOT_YET

"""Bugs planted in modules that are loaded: the changed source is run, and its functions take the place of the real
ones for one test.
"""

import sys
import types
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "seamark"


def changed_text(edits, file):
    text = (SOURCE / file).read_text()
    for edit in edits:
        if edit.file == file:
            assert text.count(edit.old + "\n") == 1, f"{file} has this not once: {edit.old!r}"
            text = text.replace(edit.old + "\n", edit.new + "\n")
    return text


def plant(monkeypatch, edits):
    """Let the edited files be what runs."""
    for file in dict.fromkeys(edit.file for edit in edits):
        name = f"seamark.{file.removesuffix('.py').replace('/', '.')}"
        real = sys.modules[name]
        changed = types.ModuleType(name)
        changed.__dict__.update({"__file__": real.__file__, "__package__": real.__package__})
        exec(compile(changed_text(edits, file), str(SOURCE / file), "exec"), changed.__dict__)
        for attribute, new in list(vars(changed).items()):
            old = getattr(real, attribute, None)
            if isinstance(new, type) and new.__module__ == name:
                _replace_methods(monkeypatch, old, new)
                # What is still made of the changed class must be one of the real kind.
                setattr(changed, attribute, old)
            elif isinstance(new, types.FunctionType) and new.__module__ == name:
                _replace_everywhere(monkeypatch, attribute, old, new)


def _replace_methods(monkeypatch, old, new):
    for name, method in list(vars(new).items()):
        if isinstance(method, types.FunctionType | property | classmethod | staticmethod):
            monkeypatch.setattr(old, name, method)


def _replace_everywhere(monkeypatch, name, old, new):
    for module in list(sys.modules.values()):
        if (
            module is not None
            and getattr(module, "__name__", "").startswith("seamark.")
            and vars(module).get(name) is old
        ):
            monkeypatch.setattr(module, name, new)

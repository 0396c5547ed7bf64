"""Commands that are loaded when they are called.

Help, a mistyped name and every command start without the others: to make the options of all of them takes as long as
most commands run. So the list of commands is written down (``main.COMMANDS``), with the module that has each and the
line that help shows; a test compares both with the commands themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Listed(NamedTuple):
    """A command before it is loaded: the module of this package whose ``add_to`` adds it, and its line in help."""

    module: str
    line: str


class DeferredGroup(TyperGroup):
    """A group that knows the names of its commands, and makes one when it is asked for."""

    listed: Mapping[str, Listed] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: MutableMapping[str, Any] = _Deferred(self.listed)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is the library's
        return list(self.listed)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.line) for name, listed in self.listed.items()])


class _Deferred(MutableMapping[str, Any]):
    """Commands by name; looking one up loads it, asking for the names does not."""

    def __init__(self, listed: Mapping[str, Listed]) -> None:
        self._listed = listed
        self._added: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._added[name] if name in self._added else _command(self._listed[name].module, name)

    def __setitem__(self, name: str, command: Any) -> None:
        self._added[name] = command

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._listed, **self._added})

    def __len__(self) -> int:
        return len({**self._listed, **self._added})


@cache
def _command(module: str, name: str) -> Any:
    part = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    import_module(f"seamark.cli.{module}").add_to(part)
    return typer.main.get_group(part).commands[name]

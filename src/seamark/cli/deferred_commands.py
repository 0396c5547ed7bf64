"""Commands that are loaded when they are called, and how the help of each is laid out.

Help, a mistyped name and every command start without the others: to make the options of all of them takes as long as
most commands run. So the list of commands is written down (``main.COMMANDS``), with the module that has each and the
line that help shows; a test compares both with the commands themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Listed(NamedTuple):
    """A command before it is loaded: the module of this package whose ``add_to`` adds it, and its line in help."""

    module: str
    line: str


class _Completion(NamedTuple):
    """What the library's own answers to a shell have."""

    value: str
    help: str
    type: str = "plain"


class PlainCommand(TyperCommand):
    """A command whose help names arguments as people do: ``GROUP...``, without the type that Python gives them."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _plain(error)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        told = [(param, record) for param in self.get_params(ctx) if (record := param.get_help_record(ctx))]
        arguments = [
            (_argument_name(param, record[0]), record[1])
            for param, record in told
            if param.param_type_name == "argument"
        ]
        options = [record for param, record in told if param.param_type_name == "option"]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _plain(refused: typer.BadParameter) -> str:
    """Why a value was refused, with the value; the library's own words are those of its parser."""
    details: list[Any] = getattr(refused.__cause__, "errors", list)()
    if details and str(details[0].get("type", "")).startswith("int_"):
        return f"{details[0].get('input')!r} is not an integer"
    return str(refused.message)


def _argument_name(param: Any, shown: str) -> str:
    name = shown.partition(" <")[0].removesuffix("...")
    return name if param.nargs == 1 else f"{name}..."


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

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [_Completion(name, listed.line) for name, listed in self.listed.items() if name.startswith(incomplete)]


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
    _make_plain(part)
    return typer.main.get_group(part).commands[name]


def _make_plain(part: typer.Typer) -> None:
    for command in part.registered_commands:
        command.cls = PlainCommand
    for group in part.registered_groups:
        if group.typer_instance is not None:
            _make_plain(group.typer_instance)

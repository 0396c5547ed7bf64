"""``seamark wire``: look at bytes. For whoever debugs a client, a broker or an offsets topic.

Input is hexadecimal, as an argument or on standard input; output is one value per line, or JSON with ``--json``.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from seamark.errors import UsageError
from seamark.wire.schema.schema import Struct

_Hex = Annotated[str, typer.Argument(metavar="HEX", help="Bytes in hexadecimal; - for standard input.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

wire_app = typer.Typer(help="Decode Kafka's bytes.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(wire_app, name="wire")


@wire_app.command("apis")
def apis(as_json: _Json = False) -> None:
    """List the APIs and versions this build reads and writes."""
    from seamark.wire.protocol.apis import all_apis

    rows = [
        {"key": api.key, "name": api.name, "versions": repr(api.versions), "flexible": repr(api.request.flexible)}
        for api in all_apis().values()
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        typer.echo(f"{row['key']:>3}  {row['name']:<26} {row['versions']:<6} flexible {row['flexible']}")


@wire_app.command("decode")
def decode(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="An API's name and direction, such as OffsetCommitRequest.")
    ],
    version: Annotated[int, typer.Argument(metavar="VERSION", help="The message's version.")],
    hexadecimal: _Hex = "-",
    as_json: _Json = False,
) -> None:
    """Decode the body of one request or response."""
    from seamark.wire.protocol.apis import api_named

    for ending in ("Request", "Response"):
        if kind.endswith(ending):
            try:
                api = api_named(kind.removesuffix(ending))
            except KeyError:
                break
            cls = api.request if ending == "Request" else api.response
            _show(cls.decode(_bytes_of(hexadecimal), version), as_json=as_json)
            return
    raise UsageError(f"{kind!r} is not a message: use an API of `seamark wire apis` with Request or Response appended")


@wire_app.command("offsets-entry")
def offsets_entry(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The record's key in hexadecimal.")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The record's value in hexadecimal; omit it for a tombstone.")
    ] = "",
    as_json: _Json = False,
) -> None:
    """Decode one record of __consumer_offsets."""
    from seamark.wire.offsets.offsets_topic import decode_entry

    _show(decode_entry(_bytes_of(key), _bytes_of(value) if value else None), as_json=as_json)


def _bytes_of(text: str) -> bytes:
    if text == "-":
        text = sys.stdin.read()
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise UsageError(f"not hexadecimal: {error}") from None


def _show(value: Any, *, as_json: bool) -> None:
    typer.echo(json.dumps(_plain(value)) if as_json else repr(value))


def _plain(value: Any) -> Any:
    """The value in JSON's types: bytes as hexadecimal, structs as objects."""
    if isinstance(value, Struct):
        plain = {f.name: _plain(getattr(value, f.name)) for f in value.fields}
        if value.unknown_tags:
            plain["unknown_tags"] = {str(tag): content.hex() for tag, content in value.unknown_tags}
        return plain
    if isinstance(value, bytes | memoryview):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__slots__"):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    return value

"""``seamark quickstart``: everything at work on one small story, with what was measured at the end.

Progress goes to standard error, the result to standard output.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from seamark.cli.options.connection import ConfigFile, Json, Options, client_config
from seamark.errors import UsageError

_Rows = Annotated[int, typer.Option("--rows", metavar="N", help="Number of orders to write.")]
_Out = Annotated[str, typer.Option("--out", metavar="DIR", help="Directory for report, lake and plan.")]
_Keep = Annotated[
    bool, typer.Option("--keep", help="Keep the topic and groups: the broker's files in DIR, or those on the cluster.")
]
# Not from SEAMARK_BOOTSTRAP: what makes topics on a cluster of somebody's is asked for by name.
_Bootstrap = Annotated[
    str, typer.Option("--bootstrap", metavar="HOST:PORT", help="Use this cluster, with a separate topic and groups.")
]
_MOST_ROWS = 5_000_000


def add_to(app: typer.Typer) -> None:
    app.command("quickstart")(quickstart)


def quickstart(
    rows: _Rows = 20_000,
    out: _Out = "seamark-quickstart",
    keep: _Keep = False,
    bootstrap: _Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
) -> None:
    """Run a demo of everything, in a minute or two.

    A broker, consumers, a Spark query and an audit. The last two need Java. Everything it leaves behind is in
    --out.
    """
    from seamark.quickstart.orders import LEAST_ROWS
    from seamark.quickstart.outcome import write_outcome
    from seamark.quickstart.screen import screen_for
    from seamark.quickstart.story import Wishes, tell

    if not LEAST_ROWS <= rows <= _MOST_ROWS:
        raise UsageError(f"--rows {rows}: must be from {LEAST_ROWS} to {_MOST_ROWS}")
    if not bootstrap and (option or config):
        raise UsageError("-o and --config need --bootstrap")
    chosen = client_config(bootstrap, config, option) if bootstrap else None
    outcome = tell(Wishes(rows, Path(out), keep, chosen), screen_for(sys.stderr))
    if as_json:
        typer.echo(outcome.as_json())
    else:
        write_outcome(outcome, sys.stdout, min(100, shutil.get_terminal_size().columns))

"""``seamark simulate``: run whole consumer groups with faults in virtual time, and replay a failure from its seed.

A lifetime that breaks a promise is told with its last events, and the command exits with 1. With ``--transcript`` the
events of each lifetime are printed in full, also of those that hold.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from seamark.counts import counted
from seamark.errors import UsageError


def add_to(app: typer.Typer) -> None:
    app.command("simulate")(simulate)


def simulate(
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="NAME", help="The scenario of faults; --list shows all.")
    ] = "random",
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The first seed. A seed gives the same run on any machine.")
    ] = 0,
    count: Annotated[int, typer.Option("--count", metavar="N", help="Number of consecutive seeds to run.")] = 1,
    transcript: Annotated[bool, typer.Option("--transcript", help="Print every event.")] = False,
    list_scenarios: Annotated[bool, typer.Option("--list", help="List the scenarios and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per lifetime.")] = False,
) -> None:
    """Simulate consumer groups with faults, in virtual time.

    Checks every guarantee of the coordinator, its log and the client after each step.
    """
    from seamark.simulation import SCENARIOS, LifetimeFailed, lifetime_of, scenario_named

    if list_scenarios:
        width = max(map(len, SCENARIOS))
        for listed in SCENARIOS.values():
            typer.echo(
                json.dumps({"name": listed.name, "about": listed.about})
                if as_json
                else f"{listed.name:<{width}}  {listed.about}"
            )
        return
    if count < 1:
        raise UsageError(f"--count must be >= 1, got {count}")
    chosen = scenario_named(scenario)
    failures = 0
    for each_seed in range(seed, seed + count):
        lifetime = lifetime_of(each_seed, chosen)
        try:
            outcome = asdict(lifetime.run())
            line = " ".join(f"{name}={figure}" for name, figure in outcome.items())
        except LifetimeFailed as failure:
            failures += 1
            outcome = {"scenario": scenario, "seed": each_seed, "step": failure.step, "failure": failure.reason}
            line = f"{failure}\n{failure.transcript}"
        if transcript:
            typer.echo(lifetime.transcript.text())
        if as_json:
            typer.echo(json.dumps({**outcome, "digest": lifetime.transcript.digest()}))
        elif count == 1 or "failure" in outcome:
            typer.echo(line)
    if not as_json and count > 1:
        lifetimes = counted(count, "lifetime")
        typer.echo(f"{lifetimes} of scenario {scenario}, seeds {seed} to {seed + count - 1}: {failures} failed")
    if failures:
        raise typer.Exit(1)

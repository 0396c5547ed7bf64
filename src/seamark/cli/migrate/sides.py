"""The two sides of ``seamark migrate`` from its options: which clusters and which ZooKeeper, and how to talk to them.

``--bootstrap`` is the Kafka cluster, or the source where there are two; ``--to-bootstrap`` is the target of two. A plan
remembers addresses, so a command that is given a plan needs options only for what a plan never holds: credentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.options.connection import client_config, read_properties
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.moves import Aiming, Kind, MoveHeader, Side

Zookeeper = Annotated[
    str,
    typer.Option("--zookeeper", envvar="SEAMARK_ZOOKEEPER", metavar="HOST:PORT[/PATH]", help="ZooKeeper's address."),
]
ZookeeperConfig = Annotated[
    str,
    typer.Option(
        "--zookeeper-config",
        metavar="FILE",
        help="TLS and SASL settings for ZooKeeper, in the format of Kafka's tools.",
    ),
]
ToBootstrap = Annotated[
    str, typer.Option("--to-bootstrap", metavar="HOST:PORT", help="Bootstrap servers of the target cluster.")
]
ToConfigFile = Annotated[str, typer.Option("--to-config", metavar="FILE", help="Client properties for the target.")]
ToOptions = Annotated[
    list[str], typer.Option("--to-option", metavar="KEY=VALUE", help="A client property for the target.")
]


@dataclass(frozen=True, slots=True)
class Connections:
    """What the options said; empty texts where they said nothing."""

    bootstrap: str = ""
    config_file: str = ""
    options: Sequence[str] = ()
    zookeeper: str = ""
    to_bootstrap: str = ""
    to_config_file: str = ""
    to_options: Sequence[str] = ()
    zookeeper_config: str = ""


@contextmanager
def opened(kind: Kind, given: Connections, planned: MoveHeader | None = None) -> Iterator[tuple[Side, Side]]:
    """Source and target, connected; addresses that were not given are those of the plan."""
    from seamark.moves import Kind

    here = planned.source.address if planned else ""
    there = planned.target.address if planned else ""
    with ExitStack() as open_things:
        if kind is Kind.ZOOKEEPER_TO_KAFKA:
            source = _zookeeper(open_things, given.zookeeper or here, given.zookeeper_config)
            yield source, _kafka(open_things, given.bootstrap, given.config_file, given.options, there)
            return
        source = _kafka(open_things, given.bootstrap, given.config_file, given.options, here)
        if kind is Kind.KAFKA_TO_ZOOKEEPER:
            yield source, _zookeeper(open_things, given.zookeeper or there, given.zookeeper_config)
        elif kind is Kind.GROUP_TO_GROUP:
            yield source, source
        else:
            if not (given.to_bootstrap or given.to_config_file or given.to_options or there):
                raise UsageError("no target cluster given: use --to-bootstrap HOST:PORT")
            yield source, _kafka(open_things, given.to_bootstrap, given.to_config_file, given.to_options, there)


def _zookeeper(open_things: ExitStack, address: str, config_file: str) -> Side:
    import os

    from seamark.moves import Side
    from seamark.stores import ZookeeperStore
    from seamark.zookeeper.security import from_properties

    if not address:
        raise UsageError("no ZooKeeper given: use --zookeeper HOST:PORT[/PATH] or set SEAMARK_ZOOKEEPER")
    security = from_properties(read_properties(Path(config_file), "--zookeeper-config") if config_file else {})
    # A password has no place among arguments, which every process can see.
    if digest := os.environ.get("SEAMARK_ZOOKEEPER_DIGEST"):
        security["digest"] = digest
    store = open_things.enter_context(ZookeeperStore(address, **security))
    return Side("zookeeper", address, store)


def _kafka(open_things: ExitStack, bootstrap: str, config_file: str, options: Sequence[str], remembered: str) -> Side:
    from seamark.client import Admin, Consumer
    from seamark.moves import Side
    from seamark.moves.record_points import CONSUMER_SETTINGS
    from seamark.stores import KafkaStore

    names = {text.partition("=")[0].strip() for text in options}
    names |= read_properties(Path(config_file)).keys() if config_file else set()
    is_named = bool(bootstrap) or "bootstrap.servers" in names
    config = client_config(bootstrap if is_named else remembered, config_file, options)
    admin = open_things.enter_context(Admin(config))
    store = open_things.enter_context(KafkaStore(admin=admin))
    reading = {key: value for key, value in config.items() if key != "group.id"} | CONSUMER_SETTINGS
    return Side(
        "kafka",
        config["bootstrap.servers"],
        store,
        admin,
        lambda: open_things.enter_context(Consumer(reading)),
    )


def aiming_of(kind: Kind, source: Side, target: Side, *, overlap_ms: int, allow_outside_log: bool) -> Aiming:
    """How the target's offsets are found."""
    from seamark.moves import ClusterLogs, Kind, OtherCluster, SameLogs

    if kind is not Kind.CLUSTER_TO_CLUSTER:
        logs = target if target.admin is not None else source
        assert logs.admin is not None
        return SameLogs(ClusterLogs(logs.admin, logs.store.name), allow_outside_log=allow_outside_log)
    if source.cluster_id == target.cluster_id:
        raise UsageError("both addresses are of the same cluster: use seamark migrate group-to-group")
    assert source.admin is not None
    assert target.admin is not None
    assert source.consumer is not None
    assert target.consumer is not None
    return OtherCluster(
        (source.admin, target.admin),
        (source.store.name, target.store.name),
        (source.consumer(), target.consumer()),
        overlap_ms=overlap_ms,
        allow_outside_log=allow_outside_log,
    )

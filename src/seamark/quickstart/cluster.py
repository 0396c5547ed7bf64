"""The cluster that the story plays on: an embedded broker of its own, or a given one with things of its own on it.

Whatever was made on a given cluster is removed at the end, also after an error or Ctrl-C, unless it is to be kept. What
could not be removed is named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.client import Admin
from seamark.client.admin.types import NewTopic
from seamark.errors import SeamarkError
from seamark.quickstart.places import Names, Places
from seamark.quickstart.screen import Screen

PARTITIONS = 4
# Few partitions of the offsets topic are plenty for four groups, and quick to read.
_SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4}


@dataclass(frozen=True, slots=True)
class Cluster:
    """``config`` is how clients reach it."""

    config: Mapping[str, Any]
    address: str
    is_ours: bool


@contextlib.contextmanager
def embedded(places: Places, *, keep: bool) -> Iterator[Cluster]:
    from seamark.broker import Broker

    with Broker(data=places.broker if keep else None, settings=_SETTINGS) as broker:
        yield Cluster({"bootstrap.servers": broker.bootstrap}, broker.bootstrap, is_ours=True)


@contextlib.contextmanager
def given(config: Mapping[str, Any], names: Names, screen: Screen, *, keep: bool) -> Iterator[Cluster]:
    with Admin(config) as admin:
        # What cannot be reached has nothing to be removed from.
        admin.describe_cluster()
    try:
        yield Cluster(config, str(config["bootstrap.servers"]), is_ours=False)
    finally:
        if not keep:
            _remove(config, names, screen)


def create_topic(admin: Admin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, PARTITIONS, -1)]).raise_if_failed()


def _remove(config: Mapping[str, Any], names: Names, screen: Screen) -> None:
    try:
        with Admin(config) as admin:
            groups = {group.group_id for group in admin.list_groups()}.intersection(names.groups)
            topics = [names.topic] if names.topic in admin.list_topics() else []
            failed = {**admin.delete_groups(sorted(groups)).errors, **admin.delete_topics(topics).errors}
    except SeamarkError as error:
        screen.say(f"topic and groups with the prefix {names.prefix!r} could not be removed: {error}")
        return
    for name, reason in sorted(failed.items()):
        screen.say(f"{name!r} could not be removed: {reason}")

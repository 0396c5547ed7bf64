"""Names of groups and topics: arguments, their completion from the cluster, and what is said of one it does not have.

A cluster that does not answer soon completes nothing, because a shell has no place for an error in the middle of a
line. A name that a shell would not take for a plain word is not completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.cli.options.connection import client_config
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from seamark.client import Admin
    from seamark.client.cluster_view import TopicView

# A person waits with a finger on the key.
_PATIENCE_MS = "2000"
# Letters and digits of every script, and signs that mean nothing to a shell within a word.
_PLAIN = re.compile(r"[\w.][\w./@+-]*")


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Groups of the cluster that begin like this and are not on the line yet."""
    return _names(ctx, incomplete, lambda admin: [listing.group_id for listing in admin.list_groups()])


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics of the cluster that begin like this and are not on the line yet."""
    return _names(ctx, incomplete, lambda admin: list(admin.list_topics()))


def _names(ctx: typer.Context, incomplete: str, ask: Any) -> list[str]:
    from seamark.client import Admin

    given = ctx.params
    try:
        config = client_config(given.get("bootstrap") or "", given.get("config") or "", given.get("option") or [])
        admin: Admin
        with Admin(config | {"default.api.timeout.ms": _PATIENCE_MS}) as admin:
            existing = ask(admin)
    except SeamarkError:
        return []
    there = given.get("names") or []
    return sorted(name for name in existing if name.startswith(incomplete) and name not in there and _is_plain(name))


def _is_plain(name: str) -> bool:
    """Whether a shell takes the name for a word, and not for something to run.

    What is completed stands in the line as it is, and zsh even evaluates the answer; anybody may name a group.
    """
    return _PLAIN.fullmatch(name) is not None


Groups = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP", help="Names of groups.", autocompletion=group_names)
]
GroupsOrAll = Annotated[
    list[str] | None,
    typer.Argument(metavar="GROUP", help="Names of groups; default: all.", autocompletion=group_names),
]


def known_topics(admin: Admin, names: Iterable[str]) -> dict[str, TopicView]:
    """The named topics; an error with the nearest name for one that is not there."""
    from seamark.suggest import absent

    known = admin.list_topics(include_internal=True)
    for name in names:
        if name not in known:
            raise SeamarkError(absent("topic", name, known))
    return {name: known[name] for name in names}


def absent_sentence(admin: Admin, name: str, error: SeamarkError) -> str:
    """What went wrong with a group, with the nearest name if there is none such."""
    from seamark.client.errors import BrokerError
    from seamark.suggest import absent
    from seamark.wire.protocol.error_codes import ErrorCode

    if not (isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND):
        return f"group {name!r}: {error}"
    return absent("group", name, (listing.group_id for listing in admin.list_groups()))

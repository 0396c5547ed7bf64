"""One access rule: who may, or may not, do what to which resources, from where. Numbers and names are Kafka's.

A rule is a plain value; ``Acl(...)`` takes the names of Kafka's tools as well as their numbers and refuses what no
rule can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from seamark.broker.security.operations import CLUSTER_NAME, Operation, ResourceType
from seamark.errors import ConfigError

ANY_NAME = "*"
ANY_HOST = "*"
ANY_USER = "User:*"

E = TypeVar("E", bound=IntEnum)


class PatternType(IntEnum):
    """``ANY`` and ``MATCH`` stand in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """``Acl("User:alice", "READ", "TOPIC", "orders-", pattern="PREFIXED")``; by default for any host, and an allowance.

    >>> Acl("User:alice", "READ", "TOPIC", "orders").permission.name
    'ALLOW'
    """

    principal: str
    operation: Operation
    resource_type: ResourceType
    name: str = ANY_NAME
    pattern: PatternType = PatternType.LITERAL
    permission: PermissionType = PermissionType.ALLOW
    host: str = ANY_HOST

    def __init__(
        self,
        principal: str,
        operation: Operation | str | int,
        resource_type: ResourceType | str | int,
        name: str = ANY_NAME,
        *,
        pattern: PatternType | str | int = PatternType.LITERAL,
        permission: PermissionType | str | int = PermissionType.ALLOW,
        host: str = ANY_HOST,
    ) -> None:
        kind, _, who = principal.partition(":")
        if not kind or not who:
            raise ConfigError("principal", principal, "it must be TYPE:NAME, such as User:alice")
        if not name:
            raise ConfigError("name", name, "a rule names a resource, or * for all of them")
        values = (
            principal,
            _member(Operation, "operation", operation, (Operation.ANY,)),
            _member(ResourceType, "resource_type", resource_type, (ResourceType.ANY,)),
            name,
            _member(PatternType, "pattern", pattern, (PatternType.ANY, PatternType.MATCH)),
            _member(PermissionType, "permission", permission, (PermissionType.ANY,)),
            host,
        )
        if values[2] is ResourceType.CLUSTER and name not in (CLUSTER_NAME, ANY_NAME):
            raise ConfigError("name", name, f"the cluster's name is {CLUSTER_NAME}")
        for slot, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, slot, value)

    def __str__(self) -> str:
        words = [self.principal, self.operation.name, self.resource_type.name, self.name]
        if self.pattern is not PatternType.LITERAL:
            words.append(self.pattern.name)
        if self.permission is not PermissionType.ALLOW:
            words.append(self.permission.name)
        if self.host != ANY_HOST:
            words.append(f"from {self.host}")
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        return {
            "principal": self.principal,
            "operation": self.operation.name,
            "resource_type": self.resource_type.name,
            "name": self.name,
            "pattern": self.pattern.name,
            "permission": self.permission.name,
            "host": self.host,
        }

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> Acl:
        return Acl(**found)


def _member(kind: type[E], option: str, given: E | str | int, not_in_a_rule: tuple[E, ...]) -> E:
    try:
        found = kind[given.upper()] if isinstance(given, str) else kind(given)
    except (KeyError, ValueError):
        found = None
    if found is None or found in not_in_a_rule:
        names = ", ".join(each.name for each in kind if each not in not_in_a_rule)
        raise ConfigError(option, given, f"it must be one of {names}")
    return found

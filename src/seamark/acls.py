"""ACLs: what a rule says and which rules a filter matches, for the broker and for the admin client.

``Acl`` and ``AclFilter`` take the names of Kafka's tools, in any case, as well as their numbers.

In a filter, a field that is None or ANY matches every value. The pattern type MATCH matches all rules that apply to the
named resource: its own, the wildcard's, and those of its prefixes; without MATCH a name is compared as it is written,
``*`` included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from seamark.errors import ConfigError

ANY_NAME = "*"
ANY_HOST = "*"
CLUSTER_NAME = "kafka-cluster"

E = TypeVar("E", bound=IntEnum)


class Operation(IntEnum):
    """What a rule allows or denies; ``ALL`` is every operation."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What kind of resource a rule is about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a rule is compared; ``ANY`` and ``MATCH`` are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether a rule allows or denies; a denial wins."""

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

    @classmethod
    def received(
        cls, principal: str, operation: int, resource_type: int, name: str, pattern: int, permission: int, host: str
    ) -> Acl:
        """A rule off the wire, unchecked: a number of a newer broker, which has no name here, stays a number."""
        rule = object.__new__(cls)
        values = (
            principal,
            _known(Operation, operation),
            _known(ResourceType, resource_type),
            name,
            _known(PatternType, pattern),
            _known(PermissionType, permission),
            host,
        )
        for slot, value in zip(cls.__slots__, values, strict=True):
            object.__setattr__(rule, slot, value)
        return rule

    def __str__(self) -> str:
        words = [self.principal, _word(self.operation), _word(self.resource_type), self.name]
        if self.pattern is not PatternType.LITERAL:
            words.append(_word(self.pattern))
        if self.permission is not PermissionType.ALLOW:
            words.append(_word(self.permission))
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


@dataclass(frozen=True, slots=True)
class AclFilter:
    """``AclFilter(resource_type="TOPIC", name="orders", pattern="MATCH")``; what is left out matches everything."""

    principal: str | None
    operation: Operation
    resource_type: ResourceType
    name: str | None
    pattern: PatternType
    permission: PermissionType
    host: str | None

    def __init__(
        self,
        principal: str | None = None,
        operation: Operation | str | int = Operation.ANY,
        resource_type: ResourceType | str | int = ResourceType.ANY,
        name: str | None = None,
        *,
        pattern: PatternType | str | int = PatternType.ANY,
        permission: PermissionType | str | int = PermissionType.ANY,
        host: str | None = None,
    ) -> None:
        values = (
            principal,
            _member(Operation, "operation", operation),
            _member(ResourceType, "resource_type", resource_type),
            name,
            _member(PatternType, "pattern", pattern),
            _member(PermissionType, "permission", permission),
            host,
        )
        for slot, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, slot, value)

    @classmethod
    def of(cls, rule: Acl) -> AclFilter:
        """The filter that matches this rule and no other."""
        return cls(
            rule.principal,
            rule.operation,
            rule.resource_type,
            rule.name,
            pattern=rule.pattern,
            permission=rule.permission,
            host=rule.host,
        )

    def matches(self, rule: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (PermissionType.ANY, rule.permission)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._matches_pattern(rule)
        )

    def _matches_pattern(self, rule: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, rule.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == rule.name
        if rule.pattern is PatternType.PREFIXED:
            return self.name.startswith(rule.name)
        return rule.name in (self.name, ANY_NAME)


def _member(kind: type[E], option: str, given: E | str | int, not_in_a_rule: tuple[E, ...] = ()) -> E:
    try:
        member = kind[given.upper()] if isinstance(given, str) else kind(given)
    except (KeyError, ValueError):
        member = None
    if member is None or member in not_in_a_rule:
        names = ", ".join(allowed.name for allowed in kind if allowed not in not_in_a_rule)
        raise ConfigError(option, given, f"it must be one of {names}")
    return member


def _known(kind: type[E], number: int) -> E | int:
    try:
        return kind(number)
    except ValueError:
        return number


def _word(value: IntEnum) -> str:
    return getattr(value, "name", f"unknown({value})")

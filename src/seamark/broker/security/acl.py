"""Access rules: what one says, which of them a filter means, and what all of them together allow.

A rule is a plain value; ``Acl(...)`` takes the names of Kafka's tools as well as their numbers and refuses what no
rule can be.

In a filter a field that is null, or ANY, means every value. A pattern of type MATCH means all rules that apply to the
named resource: its own, the wildcard's, and those of its prefixes; without MATCH a name is compared as it is written,
``*`` included.

``AclTable`` arranges rules so that a question looks only at those that can matter. The decision is Kafka's (L4): a rule
that denies wins over any that allow. Who may READ, WRITE, DELETE or ALTER may DESCRIBE, who may ALTER_CONFIGS may
DESCRIBE_CONFIGS; a denial implies nothing. A resource that no rule is about is open to nobody, or with
``allow.everyone.if.no.acl.found`` to everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

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
            raise ConfigError("name", name, "an ACL must name a resource, or * for all of them")
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
            raise ConfigError("name", name, f"the name of the cluster resource must be {CLUSTER_NAME}")
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


class FilterFields(Protocol):
    """What both requests call the parts of a filter."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    resource_type: ResourceType
    name: str | None
    pattern: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: PermissionType

    @staticmethod
    def from_request(fields: FilterFields) -> AclFilter | None:
        """Return the filter; None if it has a number that means nothing here."""
        try:
            return AclFilter(
                ResourceType(fields.resource_type_filter),
                fields.resource_name_filter,
                PatternType(fields.pattern_type_filter),
                fields.principal_filter,
                fields.host_filter,
                Operation(fields.operation),
                PermissionType(fields.permission_type),
            )
        except ValueError:
            return None

    def means(self, rule: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (PermissionType.ANY, rule.permission)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._means_pattern(rule)
        )

    def _means_pattern(self, rule: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, rule.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == rule.name
        if rule.pattern is PatternType.PREFIXED:
            return self.name.startswith(rule.name)
        return rule.name in (self.name, ANY_NAME)


# By what is asked for, the allowed operations that suffice; all others suffice for themselves alone.
_SUFFICES = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
_SUFFICIENT = {operation: _SUFFICES.get(operation, frozenset({operation})) | {Operation.ALL} for operation in Operation}

Pattern = tuple[ResourceType, PatternType, str]

# As rules are compared, and much faster than by comparing them.
_ORDER = attrgetter("principal", "operation", "resource_type", "name", "pattern", "permission", "host")


class AclTable:
    """``generation`` changes with every change of the rules: an answer that was kept is stale then."""

    def __init__(self, rules: Iterable[Acl] = (), *, is_open_without_rules: bool = False) -> None:
        self.generation = 0
        self._is_open_without_rules = is_open_without_rules
        self._by_pattern: dict[Pattern, set[Acl]] = {}
        # By resource type, the lengths that prefixes have and how many patterns have each.
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}
        self.add(rules)

    def __iter__(self) -> Iterator[Acl]:
        for rules in self._by_pattern.values():
            yield from rules

    def __len__(self) -> int:
        return sum(map(len, self._by_pattern.values()))

    def add(self, rules: Iterable[Acl]) -> None:
        """Add rules; one that is there already changes nothing."""
        for rule in rules:
            pattern = (rule.resource_type, rule.pattern, rule.name)
            if pattern not in self._by_pattern:
                self._by_pattern[pattern] = set()
                if rule.pattern is PatternType.PREFIXED:
                    lengths = self._prefix_lengths.setdefault(rule.resource_type, {})
                    lengths[len(rule.name)] = lengths.get(len(rule.name), 0) + 1
            self._by_pattern[pattern].add(rule)
        self.generation += 1

    def remove(self, rules: Iterable[Acl]) -> None:
        for rule in rules:
            pattern = (rule.resource_type, rule.pattern, rule.name)
            left = self._by_pattern.get(pattern)
            if left is None or rule not in left:
                continue
            left.remove(rule)
            if not left:
                del self._by_pattern[pattern]
                if rule.pattern is PatternType.PREFIXED:
                    lengths = self._prefix_lengths[rule.resource_type]
                    lengths[len(rule.name)] -= 1
                    if not lengths[len(rule.name)]:
                        del lengths[len(rule.name)]
        self.generation += 1

    def matching(self, wanted: AclFilter) -> list[Acl]:
        return sorted((rule for rule in self._candidates(wanted) if wanted.means(rule)), key=_ORDER)

    def cost_of(self, wanted: AclFilter) -> int:
        """How many rules ``matching`` looks at."""
        found = self._candidates(wanted)
        return len(found) + 1 if isinstance(found, set) else len(self) + 1

    def _candidates(self, wanted: AclFilter) -> Iterable[Acl]:
        """The rules that a filter can mean: those of one pattern if it names one, else all."""
        is_exact = wanted.pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        if is_exact and wanted.name is not None and wanted.resource_type is not ResourceType.ANY:
            return self._by_pattern.get((wanted.resource_type, wanted.pattern, wanted.name), set())
        return self

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        sufficient = _SUFFICIENT[operation]
        is_allowed = False
        has_rules = False
        for rules in self._about(resource_type, name):
            has_rules = True
            for rule in rules:
                if rule.principal not in (principal, ANY_USER) or rule.host not in (ANY_HOST, host):
                    continue
                if rule.permission is PermissionType.ALLOW:
                    is_allowed = is_allowed or rule.operation in sufficient
                elif rule.operation in (operation, Operation.ALL):
                    return False
        return is_allowed if has_rules else self._is_open_without_rules

    def allows_some(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """May there be a resource of the type, whether it exists or not, to which the principal may do this?"""
        sufficient = _SUFFICIENT[operation]
        names = {
            rule.name
            for rule in self
            if rule.resource_type is resource_type
            and rule.permission is PermissionType.ALLOW
            and rule.operation in sufficient
            and rule.principal in (principal, ANY_USER)
            and rule.host in (ANY_HOST, host)
        }
        # Each pattern is tried by its own name: what is denied there is denied in all that it means.
        return any(self.allows(principal, host, operation, resource_type, name) for name in {*names, ANY_NAME})

    def _about(self, resource_type: ResourceType, name: str) -> Iterator[set[Acl]]:
        """The rules whose pattern means the resource."""
        by_pattern = self._by_pattern
        for literal in {name, ANY_NAME}:
            found = by_pattern.get((resource_type, PatternType.LITERAL, literal))
            if found is not None:
                yield found
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                found = by_pattern.get((resource_type, PatternType.PREFIXED, name[:length]))
                if found is not None:
                    yield found

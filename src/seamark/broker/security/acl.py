"""What all access rules together allow.

``AclTable`` arranges rules so that a question looks only at those that can matter. The decision is Kafka's (L4): a rule
that denies wins over any that allow. Who may READ, WRITE, DELETE or ALTER may DESCRIBE, who may ALTER_CONFIGS may
DESCRIBE_CONFIGS; a denial implies nothing. A resource that no rule is about is open to nobody, or with
``allow.everyone.if.no.acl.found`` to everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Protocol

from seamark.acls import ANY_HOST, ANY_NAME, Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from seamark.errors import ConfigError

ANY_USER = "User:*"


class FilterFields(Protocol):
    """What both requests call the parts of a filter."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def filter_of(fields: FilterFields) -> AclFilter | None:
    """The filter of a request; None if it has a number that means nothing here."""
    try:
        return AclFilter(
            fields.principal_filter,
            fields.operation,
            fields.resource_type_filter,
            fields.resource_name_filter,
            pattern=fields.pattern_type_filter,
            permission=fields.permission_type,
            host=fields.host_filter,
        )
    except ConfigError:
        return None


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
        return sorted((rule for rule in self._candidates(wanted) if wanted.matches(rule)), key=_ORDER)

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

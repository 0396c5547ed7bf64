"""Which rules a DescribeAcls or DeleteAcls filter means.

A field that is null, or ANY, means every value. A pattern of type MATCH means all rules that apply to the named
resource: its own, the wildcard's, and those of its prefixes; without MATCH a name is compared as it is written, ``*``
included.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from seamark.broker.security.acl_rules import ANY_NAME, Acl, PatternType, PermissionType
from seamark.broker.security.operations import Operation, ResourceType


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

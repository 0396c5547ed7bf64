"""The ``authorized_operations`` fields, which tell a client what it may do: operation ``n`` is bit ``n``."""

from __future__ import annotations

from typing import Protocol

from seamark.acls import Operation, ResourceType

# The value of an authorized_operations field that was not asked for.
OPERATIONS_NOT_ASKED = -(1 << 31)


# What each kind of thing can be asked about, as Kafka 4.3 answers when everything is allowed.
SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


class Authorizes(Protocol):
    """What is needed of a session here."""

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> bool: ...


def authorized_operations(session: Authorizes, resource_type: ResourceType, name: str) -> int:
    """Return the bits of all operations that the session may do.

    >>> class Everybody:
    ...     def authorize(self, operation, resource_type, name):
    ...         return True
    >>> hex(authorized_operations(Everybody(), ResourceType.TOPIC, "orders"))
    '0xdf8'
    """
    bits = 0
    for operation in SUPPORTED_OPERATIONS[resource_type]:
        if session.authorize(operation, resource_type, name):
            bits |= 1 << operation
    return bits

"""What may be done to what, under Kafka's numbers: operations, resource types, and the bit fields that tell a client
its rights.

The numbers are those of the ACL requests and of ``authorized_operations`` fields, where operation ``n`` is bit ``n``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

# The value of an authorized_operations field that was not asked for.
OPERATIONS_NOT_ASKED = -(1 << 31)
CLUSTER_NAME = "kafka-cluster"


class Operation(IntEnum):
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
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


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

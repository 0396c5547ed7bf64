"""What a broker asks of its clients: encryption, a login, rights.

``Security`` is a plain value for ``Broker(security=...)``; the same can be said with Kafka's settings
(``security.settings``). ``Gatekeeper`` does what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from seamark.acls import Acl, PatternType, PermissionType
from seamark.broker.security.sasl import PLAIN
from seamark.broker.security.tls import Tls
from seamark.broker.security.users import HASHES, Users, check_user
from seamark.errors import ConfigError

__all__ = ["MECHANISMS", "Acl", "PatternType", "PermissionType", "Security", "Tls"]

MECHANISMS = (PLAIN, *HASHES)


@dataclass(frozen=True, slots=True)
class Security:
    """Everything that is left out is off.

    ``users`` maps names to passwords, which are not kept: only what logins are checked against is. ``mechanisms`` are
    those of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 that may be used, by default all. With ``acls`` (an empty list
    too) or ``super_users`` rights are checked, and who is given none has none.

    >>> Security(users={"alice": "secret"}, mechanisms=["PLAIN"], super_users=["User:alice"])
    Security(tls=None, users=<1 users>, mechanisms=('PLAIN',), acls=(), super_users=('User:alice',))
    """

    tls: Tls | None = None
    users: Users | Mapping[str, str] | None = None
    mechanisms: Sequence[str] = ()
    acls: Iterable[Acl] | None = None
    super_users: Iterable[str] = ()
    allow_everyone_if_no_acl_found: bool = field(default=False, repr=False)
    max_reauth_ms: int = field(default=0, repr=False)
    failed_authentication_delay_ms: int = field(default=100, repr=False)
    sasl_max_receive_bytes: int = field(default=524_288, repr=False)

    def __post_init__(self) -> None:
        users = self.users
        if isinstance(self.mechanisms, str):
            raise ConfigError("mechanisms", self.mechanisms, "it must be a list of mechanisms")
        mechanisms = tuple(self.mechanisms) or (MECHANISMS if users else ())
        for mechanism in mechanisms:
            if mechanism not in MECHANISMS:
                raise ConfigError("sasl.enabled.mechanisms", mechanism, f"it must be one of {', '.join(MECHANISMS)}")
        super_users = (self.super_users,) if isinstance(self.super_users, str) else tuple(self.super_users)
        for principal in super_users:
            if not all(principal.partition(":")):
                raise ConfigError("super.users", principal, "it must be TYPE:NAME, such as User:admin")
        if users is not None and not isinstance(users, Users):
            for user, password in users.items():
                check_user(user, password)
            users = Users(users, mechanisms)
        acls = None if self.acls is None and not super_users else tuple(self.acls or ())
        for name, value in (
            ("users", users),
            ("mechanisms", mechanisms),
            ("super_users", super_users),
            ("acls", acls),
        ):
            object.__setattr__(self, name, value)

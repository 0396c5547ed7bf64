"""Does what ``Security`` says: hands out a session per connection, and keeps the access rules that requests change.

One per broker, shared by its nodes. Without any security everybody may do everything, at no cost.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Mapping, Set
from typing import Any, Protocol

from seamark.acls import Acl
from seamark.address_failures import AddressFailures
from seamark.broker.security.acl import AclTable
from seamark.broker.security.sasl import PLAIN, Exchange, PlainExchange, SaslSession
from seamark.broker.security.scram import ScramExchange
from seamark.broker.security.security import Security
from seamark.broker.security.sessions import AccessCounts, GuardedSession, Session
from seamark.broker.security.settings import with_settings
from seamark.broker.security.users import Users
from seamark.counts import counted
from seamark.log_limits import LogLimits
from seamark.readable_log import readable_logger
from seamark.storage.errors import StorageFailed

_log = readable_logger("seamark.broker")

# The section of the broker's state that holds the access rules which requests created.
_CREATED = "created_acls"
# The section of earlier versions, which held the rules given at start among them.
_MIXED = "acls"
# Failed logins of an address that are answered after connection.failed.authentication.delay.ms; each further one takes
# twice as long as the one before, up to so many times that delay. A pause of so many seconds starts over.
_FAILURES_AT_ONCE = 10
_LONGEST_DELAY = 32
_FAILURES_FORGOTTEN_S = 60.0
# Rules that a log line names.
_NAMED_RULES = 20


class Sections(Protocol):
    """The broker's state, by section."""

    @property
    def sections(self) -> dict[str, Any]: ...


class RuleStore(Protocol):
    """Where access rules outlive the process: the cluster's state."""

    @property
    def state(self) -> Sections: ...

    def save(self) -> None: ...


class Gatekeeper:
    """Owned by the event loop's thread."""

    def __init__(self, security: Security | None = None, settings: Mapping[str, object] | None = None) -> None:
        said = with_settings(security or Security(), settings or {})
        self.mechanisms = said.mechanisms
        self.super_users = frozenset(said.super_users)
        self.max_reauth_ms = said.max_reauth_ms
        self._failure_delay_s = said.failed_authentication_delay_ms / 1000
        self._failures = AddressFailures(time.monotonic, forgotten_after=_FAILURES_FORGOTTEN_S)
        self.log_limits = LogLimits(readable_logger("seamark.broker.authorizer"))
        self.sasl_max_receive_bytes = said.sasl_max_receive_bytes
        self.counts = AccessCounts()
        # None while rights are not checked.
        self.acls: AclTable | None = None
        self._given_acls = frozenset(said.acls or ())
        self._created_acls: set[Acl] = set()
        if said.acls is not None:
            self.acls = AclTable(said.acls, is_open_without_rules=said.allow_everyone_if_no_acl_found)
        self._users = said.users if isinstance(said.users, Users) else Users({}, ())
        self._tls = None if said.tls is None else said.tls.context()
        if self.mechanisms and said.users is None:
            _log.warning("SASL is on and there are no users: nobody can log in")

    @property
    def is_open(self) -> bool:
        """Whether no one is asked for anything, so that only loopback addresses may be bound without saying so."""
        asks_for_certificates = self._tls is not None and self._tls.verify_mode is ssl.CERT_REQUIRED
        return not self.mechanisms and not asks_for_certificates and self.acls is None

    @property
    def protocol(self) -> str:
        """Kafka's name of the listener's security protocol."""
        return ("SASL_" if self.mechanisms else "") + ("PLAINTEXT" if self._tls is None else "SSL")

    def new_session(self) -> Session:
        if self.mechanisms:
            return SaslSession(self)
        if self._tls is not None or self.acls is not None:
            return GuardedSession(self)
        return Session()

    def server_tls(self) -> ssl.SSLContext | None:
        """Return what a listener encrypts with, or None for plain connections."""
        return self._tls

    def new_exchange(self, mechanism: str) -> Exchange:
        return PlainExchange(self._users) if mechanism == PLAIN else ScramExchange(mechanism, self._users)

    def delay_after_failure(self, host: str) -> float:
        """How long the refusal of a login from this address is held back; counts it."""
        beyond = max(0, self._failures.note(host) - _FAILURES_AT_ONCE)
        return self._failure_delay_s * min(1 << min(beyond, 16), _LONGEST_DELAY)

    # -- access rules that requests create outlive the process; those given at start are as they were given

    def restore(self, cluster: RuleStore) -> None:
        """Take up the rules that requests created in an earlier process, beside those that this one was started
        with.
        """
        if self.acls is None:
            return
        sections = cluster.state.sections
        if _MIXED in sections:
            self._take_apart(sections)
        self._created_acls = {Acl.from_json(found) for found in sections.setdefault(_CREATED, [])}
        self.acls.add(self._created_acls)

    def _take_apart(self, sections: dict[str, Any]) -> None:
        """Earlier versions saved the rules given at start with the others: what is not given now may be either."""
        kept = [rule for rule in map(Acl.from_json, sections.pop(_MIXED)) if rule not in self._given_acls]
        sections[_CREATED] = [rule.to_json() for rule in kept]
        if kept:
            named = "; ".join(map(str, kept[:_NAMED_RULES])) + ("; …" if len(kept) > _NAMED_RULES else "")
            _log.warning(
                "%s of the state file %s not among those given at start and stay in effect as if requests had created "
                "them: an earlier version did not tell the two apart. Delete what was meant to be revoked: %s",
                counted(len(kept), "access rule"),
                "is" if len(kept) == 1 else "are",
                named,
            )

    def is_given(self, rule: Acl) -> bool:
        """Whether the broker was started with this rule, so that no request can remove it."""
        return rule in self._given_acls

    def created_among(self, rules: Set[Acl]) -> frozenset[Acl]:
        """Those that requests created, whether they were given at start as well or not."""
        return frozenset(rules & self._created_acls)

    def change_acls(self, cluster: RuleStore, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Change the rules that requests created; with a data directory the change is durable on return."""
        before = self._created_acls
        self._set_created(cluster, (before - set(remove)) | set(add))
        try:
            cluster.save()
        except StorageFailed:
            self._set_created(cluster, before)
            raise

    def _set_created(self, cluster: RuleStore, rules: set[Acl]) -> None:
        assert self.acls is not None
        self.acls.remove(self._created_acls - rules - self._given_acls)
        self.acls.add(rules - self._created_acls)
        self._created_acls = rules
        cluster.state.sections[_CREATED] = [rule.to_json() for rule in sorted(rules)]

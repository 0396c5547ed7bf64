"""Who a connection belongs to and what it may do.

Dispatch asks ``may_call`` before any handler runs; handlers ask ``authorize`` for each thing they touch, unless
``is_unrestricted`` says that the answer is always yes. ``Session`` is that of a broker without security;
``GuardedSession`` takes its principal from the client's certificate, if there is one, and its rights from the access
rules.
"""

from __future__ import annotations

import logging
import ssl
from typing import Protocol

from seamark.acls import Operation, ResourceType
from seamark.broker.clock import BrokerClock, Timers
from seamark.broker.security.acl import AclTable
from seamark.broker.security.subject import BadCertificate, subject_of
from seamark.log_limits import LogLimits
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.broker.authorizer")

ANONYMOUS = "User:ANONYMOUS"
# Answers that a session keeps; a client that asks about more things than this is asked anew about all of them.
_KEPT_DECISIONS = 2000
# Longer names are asked about each time, and cut in the log: no topic has one, and a group's could have 32 kB.
_KEPT_NAME_CHARACTERS = 256
_MAPPED_IPV4 = "::ffff:"


class AccessCounts:
    """What the metrics show of logins and rights."""

    __slots__ = ("denials", "failures", "successes")

    def __init__(self) -> None:
        self.successes = 0
        self.failures = 0
        self.denials = 0


class AccessRules(Protocol):
    """What a session goes by; a ``Gatekeeper`` is one."""

    @property
    def acls(self) -> AclTable | None:
        """None while rights are not checked."""

    @property
    def super_users(self) -> frozenset[str]: ...

    @property
    def counts(self) -> AccessCounts: ...

    @property
    def log_limits(self) -> LogLimits: ...


class FrameLimit(Protocol):
    """The broker's settings, as far as a login changes what a client may send."""

    @property
    def socket_request_max_bytes(self) -> int: ...


class LoginNode(Protocol):
    """What a login uses of the node that the connection is to."""

    @property
    def settings(self) -> FrameLimit: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def log_limits(self) -> LogLimits: ...


class TokenSender(Protocol):
    """The connection that bare SASL tokens come by."""

    @property
    def node(self) -> LoginNode: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def peer_port(self) -> int: ...

    @property
    def is_open(self) -> bool: ...

    def send(self, data: bytes) -> None: ...

    def allow_frames_of(self, max_bytes: int) -> None: ...

    def close(self, reason: str) -> None: ...


class Session:
    """The rights of one connection; here: everybody may do everything."""

    __slots__ = ("expects_token", "is_unrestricted", "max_frame_bytes", "principal", "why_not")

    def __init__(self) -> None:
        self.principal = ANONYMOUS
        # True only while ``authorize`` cannot answer no: hot paths then skip the question.
        self.is_unrestricted = True
        # Whether the next frame is a bare SASL token, which has no request header.
        self.expects_token = False
        # What a frame may hold until the client is known; None means as much as afterwards.
        self.max_frame_bytes: int | None = None
        # Behind "asked for this API", why ``may_call`` said no.
        self.why_not = "before it was authenticated"

    def opened(self, host: str, ssl_object: object | None) -> None:
        """Take note of how the connection was made; ``ssl_object`` is None for one without TLS."""

    @property
    def is_known(self) -> bool:
        """Is it settled who the client is? With SASL it is once the login is done."""
        return True

    def may_call(self, api_name: str) -> bool:  # noqa: ARG002
        """May this API be called at all in the connection's present state?"""
        return True

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:  # noqa: ARG002
        return True

    def authorize_some(self, operation: Operation, resource_type: ResourceType) -> bool:  # noqa: ARG002
        """May the client do this to some resource of the type?"""
        return True

    def take_token(self, connection: TokenSender, token: bytes) -> None:  # noqa: ARG002
        """Take a frame that came while ``expects_token``."""
        raise AssertionError("a session without SASL expects no token")


class GuardedSession(Session):
    """Owned by the event loop's thread, as its connection is."""

    __slots__ = ("_decided_in", "_decisions", "_gatekeeper", "host")

    def __init__(self, gatekeeper: AccessRules) -> None:
        super().__init__()
        self._gatekeeper = gatekeeper
        self.host = ""
        self._decisions: dict[tuple[Operation, ResourceType, str], bool] = {}
        self._decided_in = -1
        self.become(ANONYMOUS)

    def opened(self, host: str, ssl_object: object | None) -> None:
        # A listener for both families shows IPv4 addresses in this form; rules are written with the usual one.
        self.host = host.removeprefix(_MAPPED_IPV4)
        certificate = ssl_object.getpeercert(True) if isinstance(ssl_object, ssl.SSLObject | ssl.SSLSocket) else None
        if certificate:
            try:
                self.become(f"User:{subject_of(certificate)}")
            except BadCertificate as error:
                self._gatekeeper.log_limits.write(
                    logging.WARNING, host, f"stays {ANONYMOUS}: {error}", about=f"the client at {host} "
                )

    def become(self, principal: str) -> None:
        gatekeeper = self._gatekeeper
        self.principal = principal
        self.is_unrestricted = gatekeeper.acls is None or principal in gatekeeper.super_users
        self._decisions.clear()

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        acls = self._gatekeeper.acls
        if acls is None or self.is_unrestricted:
            return True
        if self._decided_in != acls.generation or len(self._decisions) > _KEPT_DECISIONS:
            self._decisions.clear()
            self._decided_in = acls.generation
        question = (operation, resource_type, name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = acls.allows(self.principal, self.host, *question)
            if len(name) <= _KEPT_NAME_CHARACTERS:
                self._decisions[question] = decision
            if not decision or _log.isEnabledFor(logging.DEBUG):
                self._tell(decision, operation, resource_type, name)
        if not decision:
            self._gatekeeper.counts.denials += 1
        return decision

    def authorize_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        acls = self._gatekeeper.acls
        if acls is None or self.is_unrestricted:
            return True
        return acls.allows_some(self.principal, self.host, operation, resource_type)

    def _tell(self, decision: bool, operation: Operation, resource_type: ResourceType, name: str) -> None:
        asked = f"{operation.name} on {resource_type.name}"
        if len(name) > _KEPT_NAME_CHARACTERS:
            name = f"{name[:_KEPT_NAME_CHARACTERS]}…"
        if decision:
            _log.debug("%s from %s is allowed %s %s", self.principal, self.host, asked, name)
        else:
            # The name is the client's own and must not make it another cause.
            sentence = f"is denied {asked}"
            self._gatekeeper.log_limits.write(
                logging.INFO, self.host, sentence, about=f"{self.principal} from {self.host} ", detail=f" {name}"
            )

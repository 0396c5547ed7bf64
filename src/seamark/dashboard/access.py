"""Who may see the pages: a token to log in with, sessions in memory, and a second secret in every form.

The token is compared in constant time. An address that sends wrong ones has to wait, longer each time; no other address
is kept out by that. A session is a random name in
a cookie that scripts cannot read and other sites cannot send. A POST must carry the session's form secret and, where
the browser says where it comes from, come from this site.

Invariant: at most ``MOST_SESSIONS`` sessions exist; the oldest goes for a new one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import urllib.parse
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from seamark.address_failures import AddressFailures
from seamark.errors import HIDDEN, ConfigError

SESSION_COOKIE = "seamark-session"
LOGIN_COOKIE = "seamark-login"
SESSION_S = 12 * 3600.0
MOST_SESSIONS = 1000
SHORTEST_TOKEN = 16
# Wrong tokens of an address that are answered at once. With each further one the address waits twice as long as
# before, from a second to a minute; after ten minutes without one it starts over.
_GUESSES = 5
_LONGEST_WAIT_S = 60.0
_FORGOTTEN_S = 600.0


@dataclass(frozen=True, slots=True)
class Session:
    form_secret: str
    ends: float


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Access:
    """``clock`` gives seconds that never go back."""

    def __init__(self, token: str, clock: Callable[[], float]) -> None:
        if len(token) < SHORTEST_TOKEN:
            raise ConfigError("token", HIDDEN, f"is shorter than {SHORTEST_TOKEN} characters")
        self._token = _digest(token)
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._wrong = AddressFailures(clock, forgotten_after=_FORGOTTEN_S)
        self._lock = threading.Lock()

    def wait_s(self, address: str) -> float:
        """How long no token from this address is looked at, after too many wrong ones."""
        with self._lock:
            count, age = self._wrong.of(address)
        if count < _GUESSES:
            return 0.0
        return max(0.0, min(1 << min(count - _GUESSES, 16), _LONGEST_WAIT_S) - age)

    def log_in(self, token: str, address: str) -> str | None:
        """The name of a new session, or None if that is not the token or the address has to wait."""
        if self.wait_s(address):
            return None
        if not hmac.compare_digest(_digest(token), self._token):
            with self._lock:
                self._wrong.note(address)
            return None
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._wrong.forget(address)
            self._sessions[name] = Session(secrets.token_urlsafe(32), self._clock() + SESSION_S)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return name

    def session(self, name: str | None) -> Session | None:
        with self._lock:
            session = self._sessions.get(name or "")
            if session is not None and session.ends <= self._clock():
                del self._sessions[name or ""]
                return None
        return session

    def log_out(self, name: str | None) -> None:
        with self._lock:
            self._sessions.pop(name or "", None)

    def login_form(self) -> tuple[str, str]:
        """A cookie's value and the form secret that belongs to it, for those who have no session yet."""
        value = secrets.token_urlsafe(16)
        return value, self._signed(value)

    def is_login_form(self, cookie: str | None, secret: str) -> bool:
        return bool(cookie) and hmac.compare_digest(self._signed(cookie or "").encode(), secret.encode())

    def _signed(self, value: str) -> str:
        return hmac.new(self._key, value.encode(), hashlib.sha256).hexdigest()


def is_form_of(session: Session, secret: str) -> bool:
    return hmac.compare_digest(session.form_secret.encode(), secret.encode())


def is_same_site(headers: Mapping[str, str]) -> bool:
    """Whether a request that changes something comes from a page of this site, as far as the browser says.

    >>> is_same_site({"host": "a:1", "origin": "http://a:1"}), is_same_site({"host": "a:1", "origin": "http://b"})
    (True, False)
    >>> is_same_site({"host": "inner", "origin": "https://outer", "sec-fetch-site": "same-origin"})
    True
    """
    told = headers.get("sec-fetch-site")
    if told is not None:
        # What the browser knows counts more than a host name that a proxy may have changed.
        return told in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urllib.parse.urlsplit(origin).netloc == headers.get("host")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()

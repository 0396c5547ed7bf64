"""Carries alerts to a webhook on a thread of its own: in order, again after failures, and never without bounds.

The queue is bounded; when it is full the oldest alert is dropped and counted. An address may hold a secret, so nothing
but its host is ever shown. Redirects are failures: an alert goes where it was told to go.
"""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from seamark.errors import ConfigError
from seamark.monitor.alerts import Alert
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.monitor")
_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
# Answers after which trying again makes no sense: the receiver has understood and does not want it.
_FINAL = frozenset({400, 401, 403, 404, 405, 410, 413, 415, 422})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Webhook:
    """Sends to ``url``; ``attempts`` per alert with growing pauses, ``most`` alerts waiting."""

    def __init__(self, url: str, *, attempts: int = 6, most: int = 1000, first_pause: float = _FIRST_PAUSE_S) -> None:
        self.host = _host_of(url)
        self.sent = 0
        self.dropped = 0
        self.error: str | None = None
        self._url = url
        self._attempts = attempts
        self._first_pause = first_pause
        self._waiting: deque[Alert] = deque(maxlen=most)
        self._change = threading.Condition()
        self._is_closing = False
        self._open: Callable[..., Any] = urllib.request.build_opener(_NoRedirects).open
        self._thread = threading.Thread(target=self._run, name="seamark-webhook", daemon=True)
        self._thread.start()

    def put(self, alerts: Iterable[Alert]) -> None:
        with self._change:
            for alert in alerts:
                if len(self._waiting) == self._waiting.maxlen:
                    self.dropped += 1
                self._waiting.append(alert)
            self._change.notify_all()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def close(self, timeout: float = 5.0) -> None:
        """Try what is waiting once more, but no longer than ``timeout`` seconds."""
        with self._change:
            self._is_closing = True
            self._change.notify_all()
        self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._waiting:
                    if self._is_closing:
                        return
                    self._change.wait()
                alert = self._waiting.popleft()
            self._deliver(alert)

    def _deliver(self, alert: Alert) -> None:
        pause = self._first_pause
        for attempt in range(1, self._attempts + 1):
            problem, is_final = self._send(alert)
            if problem is None:
                self.sent += 1
                self.error = None
                return
            self.error = f"the webhook at {self.host} {problem}"
            if is_final or attempt == self._attempts or self._is_closing:
                break
            with self._change:
                self._change.wait_for(lambda: self._is_closing, pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)
        self.dropped += 1
        _log.warning("An alert could not be delivered: %s", self.error)

    def _send(self, alert: Alert) -> tuple[str | None, bool]:
        """Why it did not arrive, if it did not, and whether that is final."""
        request = urllib.request.Request(  # noqa: S310 - http or https, checked when it was made
            self._url,
            json.dumps(alert.body()).encode(),
            {"Content-Type": "application/json", "User-Agent": "seamark"},
        )
        try:
            with self._open(request, timeout=_TIMEOUT_S) as answer:
                answer.read(1024)
        except urllib.error.HTTPError as error:
            error.close()
            return f"answered {error.code}", error.code in _FINAL
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            # A ValueError is an address that a resolver or a proxy setting cannot take.
            reason = getattr(error, "reason", error)
            return f"cannot be reached ({reason.__class__.__name__})", False
        return None, False


def _host_of(url: str) -> str:
    """ConfigError for what is no address; it shows the scheme at most, for the rest may hold a secret."""
    scheme = url.partition("://")[0]
    shown = f"{scheme}://…" if scheme in ("http", "https") else "…"
    if shown == "…":
        raise ConfigError("alert-url", shown, "must begin with http:// or https://")
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
        # As it will be sent; a name may have letters of all scripts.
        (host or "").encode("idna")
    except ValueError:
        raise ConfigError("alert-url", shown, "has an invalid host or port (write IPv6 addresses in [ ])") from None
    rest = parts._replace(netloc="").geturl()
    if not host or " " in url or not url.isprintable() or not rest.isascii():
        raise ConfigError(
            "alert-url", shown, "has no host, or contains a character that must be written as %XX: a space, a control "
            "character or a letter beyond ASCII",
        )  # fmt: skip
    return host

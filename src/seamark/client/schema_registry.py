"""A client of a schema registry that speaks Confluent's REST interface: schemas by id, and ids by subject.

Answers are kept for ever: an id never changes its schema. Credentials may stand in the URL or be given apart; they are
sent to that host only (redirects are not followed) and are in no error, log line or ``repr``. Every request has a time
limit and its answer a size limit, and each of several URLs is tried in turn.

Calls block; the objects may be shared by threads, where at worst two of them ask the same.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from seamark.client.errors import ClientError
from seamark.errors import ConfigError

DEFAULT_TIMEOUT_S = 10.0
# Far above any schema; a registry that sends more is not one.
MAX_ANSWER_BYTES = 16 << 20
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_MAX_REFERENCES = 1000


class RegistryError(ClientError):
    """The registry at ``url`` refused, or could not be asked; ``status`` is its HTTP status, or None."""

    def __init__(self, url: str, what: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"the schema registry at {url} did not {what}: {reason}")
        self.url = url
        self.reason = reason
        self.status = status
        # What a registry has decided stays; one that is away or broken may come back.
        self.is_retriable = status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR


class Reference(NamedTuple):
    """A schema that another one names."""

    name: str
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    schema_id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()


class _Address(NamedTuple):
    url: str
    authorization: str | None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The credentials are for the host they were given for."""

    def redirect_request(self, *_: Any) -> None:
        return None


class SchemaRegistry:
    """One registry; ``urls`` is a URL or several, which are tried in their order."""

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        username: str | None = None,
        password: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        ca_file: str | None = None,
    ) -> None:
        given = urls.split(",") if isinstance(urls, str) else list(urls)
        self._addresses = [_read_url(each.strip(), username, password) for each in given]
        if not self._addresses:
            raise ConfigError("schema.registry.url", "", "names no registry")
        if not timeout > 0:
            raise ConfigError("timeout", timeout, "is not a number of seconds above 0")
        self._timeout_s = timeout
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise ConfigError("ca_file", ca_file, f"cannot be read as certificates ({error})") from error
        # Without the environment's proxies: a registry is a host of the same network.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _NoRedirects(), urllib.request.HTTPSHandler(context=context)
        )
        self._by_id: dict[int, RegisteredSchema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}
        self._ids: dict[tuple[str, str, bool], int] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id."""
        found = self._by_id.get(schema_id)
        if found is None:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}", f"give the schema with id {schema_id}")
            found = self._by_id[schema_id] = self._read(schema_id, answer)
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject; asked anew each time."""
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        answer = self._ask("GET", path, f"give the newest schema of subject {subject!r}")
        found = self._read(self._number(answer, "id"), answer)
        self._by_id.setdefault(found.schema_id, found)
        return found

    def schema_id(self, subject: str, text: str, *, register: bool) -> int:
        """The id of a schema under a subject; ``register`` makes it known there if it is not."""
        found = self._ids.get((subject, text, register))
        if found is None:
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
            what = f"{'register' if register else 'know'} the schema for subject {subject!r}"
            found = self._number(self._ask("POST", path, what, {"schema": text}), "id")
            self._ids[subject, text, register] = found
        return found

    def referenced(self, schema: RegisteredSchema) -> list[RegisteredSchema]:
        """Every schema that it needs, those first that others of them need."""
        ordered: dict[Reference, RegisteredSchema] = {}

        def visit(each: RegisteredSchema, path: tuple[Reference, ...]) -> None:
            for reference in each.references:
                if reference in path or len(ordered) > _MAX_REFERENCES:
                    raise RegistryError(self.url, "give usable schemas", f"{reference.name!r} refers to itself")
                if reference not in ordered:
                    needed = self._version(reference)
                    visit(needed, (*path, reference))
                    ordered[reference] = needed

        visit(schema, ())
        return list(ordered.values())

    def _version(self, reference: Reference) -> RegisteredSchema:
        key = (reference.subject, reference.version)
        found = self._by_version.get(key)
        if found is None:
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            answer = self._ask("GET", path, f"give version {reference.version} of subject {reference.subject!r}")
            found = self._by_version[key] = self._read(self._number(answer, "id"), answer)
        return found

    @property
    def url(self) -> str:
        """Where it is, without credentials."""
        return ", ".join(address.url for address in self._addresses)

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url!r})"

    # -- requests

    def _ask(self, method: str, path: str, what: str, content: Mapping[str, object] | None = None) -> dict[str, Any]:
        body = None if content is None else json.dumps(content).encode()
        error: RegistryError | None = None
        for address in self._addresses:
            try:
                return self._ask_one(address, method, path, what, body)
            except RegistryError as failed:
                if not failed.is_retriable:
                    raise
                error = error or failed
        assert error is not None
        raise error

    def _ask_one(self, address: _Address, method: str, path: str, what: str, body: bytes | None) -> dict[str, Any]:
        headers = {"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE}
        if address.authorization is not None:
            headers["Authorization"] = address.authorization
        # The scheme was checked when the address was read.
        request = urllib.request.Request(address.url + path, body, headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                content = response.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                reason = _told(error.read(MAX_ANSWER_BYTES), error.code)
            raise RegistryError(address.url, what, reason, error.code) from None
        except (OSError, ValueError) as error:
            reason = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else _reason(error)
            raise RegistryError(address.url, what, reason) from None
        if len(content) > MAX_ANSWER_BYTES:
            raise RegistryError(address.url, what, f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise RegistryError(address.url, what, "its answer is not a JSON object")
        return answer

    def _read(self, schema_id: int, answer: Mapping[str, Any]) -> RegisteredSchema:
        text, references = answer.get("schema"), answer.get("references") or []
        try:
            needed = tuple(Reference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in references)
        except (TypeError, KeyError, ValueError):
            raise RegistryError(self.url, "give a usable schema", "its references cannot be read") from None
        if not isinstance(text, str):
            raise RegistryError(self.url, "give a usable schema", "its answer has no schema")
        return RegisteredSchema(schema_id, str(answer.get("schemaType") or "AVRO"), text, needed)

    def _number(self, answer: Mapping[str, Any], name: str) -> int:
        number = answer.get(name)
        if isinstance(number, bool) or not isinstance(number, int):
            raise RegistryError(self.url, "give a usable answer", f"it has no {name}")
        return number


def _read_url(url: str, username: str | None, password: str | None) -> _Address:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise ConfigError("schema.registry.url", _without_user(url), "is not a URL such as http://host:8081")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    clean = f"{parts.scheme}://{host}" + ("" if port is None else f":{port}") + parts.path.rstrip("/")
    name = username if username is not None else (unquote(parts.username) if parts.username else None)
    secret = password if password is not None else unquote(parts.password or "")
    if name is None:
        return _Address(clean, None)
    return _Address(clean, "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode())


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]


def _told(content: bytes, status: int) -> str:
    """What the registry says is wrong, in its own words where it has some."""
    try:
        message = json.loads(content)["message"]
    except (ValueError, TypeError, KeyError):
        message = {401: "the credentials are wrong or missing", 403: "not allowed"}.get(status, "no reason was given")
    return f"{message} (HTTP {status})"


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__

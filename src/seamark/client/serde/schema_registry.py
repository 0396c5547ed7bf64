"""A client of a schema registry that speaks Confluent's REST interface: schemas by id, and ids by subject.

Answers are kept: an id never changes its schema. Credentials may stand in the URL or be given apart; they are sent to
that host only (redirects are not followed) and are in no error, log line or ``repr``. A registry may be anybody's: a
request has a time limit for all of its answer, however slowly it comes, an answer has a size limit, and so have the
schemas that are kept. Each of several URLs is tried in turn.

Calls block; the objects may be shared by threads, where at worst two of them ask the same.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

from seamark.client.errors import ClientError
from seamark.errors import ConfigError

DEFAULT_TIMEOUT_S = 10.0
# Far above any schema; a registry that sends more is not one.
MAX_ANSWER_BYTES = 4 << 20
# Characters of schemas that are kept; parsed, a schema is some thirty times as large.
MAX_KEPT_SIZE = 16 << 20
MAX_KEPT_SCHEMAS = 1000
MAX_SCHEMA_ID = (1 << 32) - 1
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_MAX_REFERENCES = 100
_DEEPEST_REFERENCE = 20
# Of a registry's own words and names in a sentence of ours.
_LONGEST_WORDS = 300

K = TypeVar("K")
V = TypeVar("V")


class RegistryError(ClientError):
    """The registry at ``url`` refused, or could not be asked; ``status`` is its HTTP status, or None."""

    def __init__(self, url: str, what: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"the schema registry at {url} could not {what}: {reason}")
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
    """A schema as the registry holds it, with the schemas that it refers to."""

    schema_id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()


class KeptSchemas(dict[K, V]):
    """The newest of what was kept: so many, and of so much text. May be used on any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[K, int] = {}
        self._lock = threading.Lock()

    def keep(self, key: K, value: V, size: int) -> None:
        with self._lock:
            self[key] = value
            self._sizes[key] = size
            while len(self._sizes) > MAX_KEPT_SCHEMAS or (len(self._sizes) > 1 and self.size > MAX_KEPT_SIZE):
                oldest = next(iter(self._sizes))
                del self._sizes[oldest], self[oldest]

    @property
    def size(self) -> int:
        return sum(self._sizes.values())


class _Address(NamedTuple):
    """``url`` is for people; credentials are for this host only."""

    url: str
    host: str
    port: int | None
    path: str
    is_https: bool
    authorization: str | None


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
        self._addresses = [_read_url(url.strip(), username, password) for url in given]
        if not self._addresses:
            raise ConfigError("schema.registry.url", "", "contains no URL")
        if not timeout > 0:
            raise ConfigError("timeout", timeout, "must be a number of seconds > 0")
        self._timeout_s = timeout
        try:
            self._tls = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise ConfigError("ca_file", ca_file, f"cannot be read as certificates ({error})") from error
        self._by_id: KeptSchemas[int, RegisteredSchema] = KeptSchemas()
        self._by_version: KeptSchemas[tuple[str, int], RegisteredSchema] = KeptSchemas()
        self._ids: dict[tuple[str, str, bool], int] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id."""
        registered = self._by_id.get(schema_id)
        if registered is None:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}", f"return the schema with id {schema_id}")
            registered = self._read(schema_id, answer)
            self._by_id.keep(schema_id, registered, len(registered.text))
        return registered

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject; asked anew each time."""
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        answer = self._ask("GET", path, f"return the newest schema of subject {subject!r}")
        registered = self._read(self._number(answer, "id"), answer)
        return self._by_id.get(registered.schema_id) or self._kept(registered)

    def _kept(self, registered: RegisteredSchema) -> RegisteredSchema:
        self._by_id.keep(registered.schema_id, registered, len(registered.text))
        return registered

    def schema_id(self, subject: str, text: str, *, register: bool) -> int:
        """The id of a schema under a subject; ``register`` makes it known there if it is not."""
        number = self._ids.get((subject, text, register))
        if number is None:
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
            what = f"{'register' if register else 'find'} the schema for subject {subject!r}"
            number = self._number(self._ask("POST", path, what, {"schema": text}), "id")
            self._ids[subject, text, register] = number
        return number

    def referenced(self, schema: RegisteredSchema) -> list[RegisteredSchema]:
        """Every schema that it needs, those first that others of them need."""
        ordered: dict[Reference, RegisteredSchema] = {}
        asked: set[Reference] = set()

        def visit(referring: RegisteredSchema, path: tuple[Reference, ...]) -> None:
            for reference in referring.references:
                if reference in path:
                    raise self._unusable(f"{reference.name[:_LONGEST_WORDS]!r} refers to itself")
                if len(path) >= _DEEPEST_REFERENCE:
                    raise self._unusable(f"the references are nested more than {_DEEPEST_REFERENCE} levels deep")
                if reference not in ordered:
                    if len(asked) >= _MAX_REFERENCES:
                        raise self._unusable(f"a schema has more than {_MAX_REFERENCES} references")
                    asked.add(reference)
                    needed = self._version(reference)
                    visit(needed, (*path, reference))
                    ordered[reference] = needed

        visit(schema, ())
        return list(ordered.values())

    def _version(self, reference: Reference) -> RegisteredSchema:
        key = (reference.subject, reference.version)
        registered = self._by_version.get(key)
        if registered is None:
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            answer = self._ask("GET", path, f"return version {reference.version} of subject {reference.subject!r}")
            registered = self._read(self._number(answer, "id"), answer)
            self._by_version.keep(key, registered, len(registered.text))
        return registered

    def _unusable(self, reason: str) -> RegistryError:
        return RegistryError(self.url, "return usable schemas", reason)

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
        kind: Any = HTTPSConnection if address.is_https else HTTPConnection
        more = {"context": self._tls} if address.is_https else {}
        connection = kind(address.host, address.port, timeout=self._timeout_s, **more)
        ended = threading.Event()
        watch: threading.Timer | None = None
        try:
            connection.connect()
            # The connection's own limit is for each piece that comes, and pieces may come for ever.
            watch = threading.Timer(self._timeout_s, _cut, (connection.sock, ended))
            watch.daemon = True
            watch.start()
            connection.request(method, address.path + path, body, headers)
            with connection.getresponse() as response:
                content, status = response.read(MAX_ANSWER_BYTES + 1), response.status
        except (OSError, ValueError, HTTPException) as error:
            is_late = ended.is_set() or isinstance(error, TimeoutError)
            reason = f"no response within {self._timeout_s:g} s" if is_late else _reason(error)
            raise RegistryError(address.url, what, reason) from None
        finally:
            if watch is not None:
                watch.cancel()
            connection.close()
        if ended.is_set():
            raise RegistryError(address.url, what, f"no response within {self._timeout_s:g} s")
        if status != HTTPStatus.OK:
            raise RegistryError(address.url, what, _told(content, status), status)
        if len(content) > MAX_ANSWER_BYTES:
            raise RegistryError(address.url, what, f"its response is larger than {MAX_ANSWER_BYTES} bytes")
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise RegistryError(address.url, what, "its response is not a JSON object")
        return answer

    def _read(self, schema_id: int, answer: Mapping[str, Any]) -> RegisteredSchema:
        text, references = answer.get("schema"), answer.get("references") or []
        try:
            needed = tuple(Reference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in references)
        except (TypeError, KeyError, ValueError, OverflowError):
            raise RegistryError(self.url, "return a usable schema", "its references cannot be read") from None
        if not isinstance(text, str):
            raise RegistryError(self.url, "return a usable schema", "its response has no schema")
        return RegisteredSchema(schema_id, str(answer.get("schemaType") or "AVRO"), text, needed)

    def _number(self, answer: Mapping[str, Any], name: str) -> int:
        number = answer.get(name)
        if isinstance(number, bool) or not isinstance(number, int):
            raise RegistryError(self.url, "return a usable response", f"it has no {name}")
        if not 0 <= number <= MAX_SCHEMA_ID:
            raise RegistryError(self.url, "return a usable response", f"its {name} is not a 32-bit integer")
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
    allowed = None if name is None else "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()
    return _Address(clean, parts.hostname, port, parts.path.rstrip("/"), parts.scheme == "https", allowed)


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]


def _told(content: bytes, status: int) -> str:
    """What the registry says is wrong, in its own words where it has some."""
    try:
        message = json.loads(content)["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        message = {401: "the credentials are wrong or missing", 403: "not authorized"}.get(status, "no reason given")
    return f"{str(message)[:_LONGEST_WORDS]} (HTTP {status})"


def _reason(error: Exception) -> str:
    told = str(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:_LONGEST_WORDS]
    return told if isinstance(error, OSError) else f"its response is not HTTP ({told})"


def _cut(sock: socket.socket, ended: threading.Event) -> None:
    """Wake the thread that waits for a connection's next piece."""
    ended.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)

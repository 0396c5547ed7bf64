"""A schema registry in a thread: as much of Confluent's REST interface as clients use, with faults to order."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class FakeRegistry:
    """``with FakeRegistry() as registry: registry.url``; ``requests`` are those it was sent, as "METHOD path"."""

    def __init__(self, username: str | None = None, password: str | None = None) -> None:
        self.schemas: dict[int, dict] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.authorizations: set[str | None] = set()
        # An answer to give instead: status, headers and body.
        self.instead: tuple[int, dict[str, str], bytes] | None = None
        self.silent = threading.Event()
        self._wanted = None
        if username is not None:
            self._wanted = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._serve(self, None)

            def do_POST(self) -> None:
                registry._serve(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def add(self, subject: str, schema: object, references: list | None = None, kind: str | None = None) -> int:
        """Register a schema from the side."""
        entry = {"schema": json.dumps(schema)}
        if references:
            entry["references"] = references
        if kind:
            entry["schemaType"] = kind
        return self._register(subject, entry)

    def _register(self, subject: str, entry: dict) -> int:
        known = [number for number, each in self.schemas.items() if each == entry]
        number = known[0] if known else len(self.schemas) + 1
        self.schemas[number] = entry
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _serve(self, request: BaseHTTPRequestHandler, content: dict | None) -> None:
        self.requests.append(f"{request.command} {request.path}")
        self.authorizations.add(request.headers.get("Authorization"))
        if self.silent.is_set():
            self._stop.wait(10)
        if self.instead is not None:
            status, headers, body = self.instead
        elif self._wanted is not None and request.headers.get("Authorization") != self._wanted:
            status, headers, body = 401, {}, b'{"error_code": 40101, "message": "Unauthorized"}'
        else:
            status, answer = self._answer(request.command, request.path.strip("/").split("/"), content)
            headers, body = {}, json.dumps(answer).encode()
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(name, value)
        # Who was kept waiting may have given up.
        with suppress(ConnectionError):
            request.end_headers()
            request.wfile.write(body)

    def _answer(self, method: str, path: list[str], content: dict | None) -> tuple[int, dict]:
        match method, list(map(unquote, path)):
            case "GET", ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case "GET", ["subjects", subject, "versions", version] if subject in self.subjects:
                versions = self.subjects[subject]
                index = len(versions) if version == "latest" else int(version)
                number = versions[index - 1]
                return 200, {"subject": subject, "version": index, "id": number, **self.schemas[number]}
            case "POST", ["subjects", subject, "versions"] if content is not None:
                return 200, {"id": self._register(subject, content)}
            case "POST", ["subjects", subject] if content in [self.schemas[n] for n in self.subjects.get(subject, [])]:
                return 200, {"id": next(n for n in self.subjects[subject] if self.schemas[n] == content)}
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def __enter__(self) -> FakeRegistry:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

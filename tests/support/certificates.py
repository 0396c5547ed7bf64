"""Certificates for tests, made by the openssl command: an authority, and what it signs."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.external_tools import Unavailable

_DAYS = "30"


@dataclass(frozen=True)
class Certificate:
    """Two PEM files; ``both`` is one file with the key in front."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates for a test; ``certificate`` is what its peers trust."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made = 0
        own = self._self_signed("/CN=authority")
        self.certificate, self._key = own.certificate, own.key

    def sign(self, subject: str, *, host: str = "127.0.0.1", password: str | None = None) -> Certificate:
        """``subject`` in openssl's form: ``/O=Seamark/CN=alice``."""
        certificate, key, both = self._paths()
        request, extensions = certificate.with_suffix(".csr"), certificate.with_suffix(".ext")
        extensions.write_text(f"subjectAltName=IP:{host},DNS:localhost\n")
        protection = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
        _openssl("req", "-newkey", "rsa:2048", *protection, "-utf8", "-keyout", key, "-out", request, "-subj", subject)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial",
                 "-out", certificate, "-days", _DAYS, "-extfile", extensions)  # fmt: skip
        both.write_text(key.read_text() + certificate.read_text())
        return Certificate(certificate, key, both)

    def _self_signed(self, subject: str) -> Certificate:
        certificate, key, both = self._paths()
        _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", _DAYS,
                 "-subj", subject)  # fmt: skip
        return Certificate(certificate, key, both)

    def _paths(self) -> tuple[Path, Path, Path]:
        self._made += 1
        return tuple(self._directory / f"{self._made}-{what}.pem" for what in ("cert", "key", "both"))  # type: ignore[return-value]


def _openssl(*arguments: object) -> None:
    command = shutil.which("openssl")
    if command is None:
        raise Unavailable("certificates for tests need the openssl command (Debian: apt install openssl)")
    run = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr

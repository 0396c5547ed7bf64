"""A ZooKeeper that talks TLS with clients who have a certificate, and serves only who signs in with SASL."""

from __future__ import annotations

from pathlib import Path

from tests.support.certificates import Authority, Certificate
from tests.support.watched_server import free_ports
from tests.support.zookeeper import Zookeeper

USER = "mover"
PASSWORD = "sasl-secret"
KEY_PASSWORD = "key-secret"


class SecuredZookeeper(Zookeeper):
    """``connect`` is the port for TLS; the plain one only says whether the server is there."""

    def __init__(self, certificates: Path) -> None:
        super().__init__()
        (self._tls_port,) = free_ports(1)
        self.authority = Authority(certificates)
        self.client: Certificate = self.authority.sign("/CN=client", password=KEY_PASSWORD)
        self._server = self.authority.sign("/CN=zookeeper")

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self._tls_port}"

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {
            "secureClientPort": self._tls_port,
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": self._server.both,
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": self.authority.certificate,
            "ssl.trustStore.type": "PEM",
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "enforce.auth.enabled": "true",
            "enforce.auth.schemes": "sasl",
        }

    def _java_options(self) -> tuple[str, ...]:
        logins = self._directory / "logins.conf"
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        logins.write_text(f'Server {{ {module} required user_{USER}="{PASSWORD}"; }};\n')
        return (f"-Djava.security.auth.login.config={logins}",)

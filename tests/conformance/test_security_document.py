"""The commands of docs/security.md, run as they stand but for the port."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.client import Admin, Consumer, TopicPartition
from seamark.client.errors import Refused

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the document's certificate is made by openssl")
def test_the_commands_of_the_security_page_make_a_broker_that_lets_in_who_it_should(tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    text = PAGE.read_text().replace("9093", str(port))
    certificate, users, broker, client = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    [program] = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(script: str) -> None:
        done = subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    run(certificate)
    run(users)
    serving = subprocess.Popen(
        ["sh", "-ec", f"exec {broker}"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert serving.stdout is not None
        assert serving.stdout.readline().startswith("ready bootstrap=")
        run(client)
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)
        passwords = dict(line.split(":") for line in (tmp_path / "users").read_text().split())
        billing = {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "cert.pem"),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "billing",
            "sasl.password": passwords["billing"],
        }
        partition = TopicPartition("orders", 0)
        with Consumer({**billing, "group.id": "billing"}) as consumer:
            consumer.commit({partition: 3})
            assert consumer.committed([partition])[partition].offset == 3
        with Consumer({**billing, "group.id": "another"}) as consumer, pytest.raises(Refused):
            consumer.commit({partition: 3})
        with Admin(billing) as admin:
            assert list(admin.list_topics()) == ["orders"]
    finally:
        serving.terminate()
        serving.wait(30)
        serving.stdout.close()

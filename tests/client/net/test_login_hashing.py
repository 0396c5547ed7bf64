"""A login by SCRAM hashes the password as often as the broker says; no other client of the process waits for that."""

import hashlib
import threading

from seamark import Broker, Security
from seamark.client import Admin


def test_while_one_client_hashes_its_password_the_others_are_served(monkeypatch):
    real = hashlib.pbkdf2_hmac
    is_hashing, may_go_on = threading.Event(), threading.Event()
    security = Security(users={"alice": "secret"}, mechanisms=["SCRAM-SHA-256"])
    with Broker(security=security) as guarded, Broker() as open_broker:

        def slow(*given):
            is_hashing.set()
            assert may_go_on.wait(60)
            return real(*given)

        monkeypatch.setattr(hashlib, "pbkdf2_hmac", slow)
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice"}
        found = []

        def log_in():
            with Admin({**login, "bootstrap.servers": guarded.bootstrap, "sasl.password": "secret"}) as admin:
                found.append(len(admin.describe_cluster().brokers))

        logging_in = threading.Thread(target=log_in)
        logging_in.start()
        try:
            assert is_hashing.wait(60)
            with Admin({"bootstrap.servers": open_broker.bootstrap}) as other:
                assert len(other.describe_cluster().brokers) == 1
        finally:
            may_go_on.set()
            logging_in.join()
        assert found == [1]

"""Nodes of a real ZooKeeper read many at once: the same answers as one by one, also where that is refused."""

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError, UnimplementedError
from kazoo.security import make_digest_acl

from seamark.zookeeper import multi_read
from seamark.zookeeper.multi_read import read_each
from seamark.zookeeper.session import ZookeeperSession


def shown(answers):
    return [(path, answer[0] if isinstance(answer, tuple) else type(answer)) for path, answer in answers]


def test_many_nodes_are_read_at_once_and_one_by_one_alike(zookeeper, zookeeper_connect, monkeypatch):
    host, _, chroot = zookeeper_connect.partition("/")
    maker = KazooClient(host)
    maker.start()
    wanted = []
    for number in range(100):
        maker.create(f"/{chroot}/{number}", b"%d" % number * (number % 5), makepath=True)
        wanted.append((f"/{number}", b"%d" % number * (number % 5)))
    acl = [make_digest_acl("somebody", "secret", all=True)]
    maker.create(f"/{chroot}/closed", b"1", acl=acl)
    wanted[70:70] = [("/absent", NoNodeError), ("/closed", NoAuthError)]
    maker.stop()
    maker.close()
    session = ZookeeperSession(zookeeper_connect)
    try:
        paths = [path for path, _ in wanted]
        assert shown(read_each(session, paths, lambda path: path)) == wanted
        assert shown(read_each(session, [], lambda path: path)) == []
        # A server that knows no such request refuses it; 99 is none.
        monkeypatch.setattr(multi_read.MultiRead, "type", 99)
        refused = session.client.handler.async_result()
        session.client._call(multi_read.MultiRead(["/"]), refused)
        with pytest.raises(UnimplementedError):
            refused.get(10)
        assert shown(read_each(session, paths, lambda path: path)) == wanted
    finally:
        session.close()

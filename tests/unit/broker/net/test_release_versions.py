"""A broker that is to look like an older one."""

from seamark.broker.net.release_versions import RELEASES, newest_versions
from seamark.wire.protocol.apis import all_apis


def test_every_release_offers_no_more_than_this_build_speaks():
    for release in RELEASES:
        for key, version in newest_versions(release).items():
            assert version <= all_apis()[key].versions.last
    assert 18 in newest_versions("0.11")

"""The newest version of each API in each Kafka release, for a broker that is to look like an older one.

A row holds, per API, the releases that raised its newest version. The oldest versions are those that this broker
serves at all, whatever the release.
"""

from __future__ import annotations

from seamark.errors import ConfigError

RELEASES = [
    "0.11",
    "1.0",
    "1.1",
    "2.0",
    "2.1",
    "2.2",
    "2.3",
    "2.4",
    "2.5",
    "2.6",
    "2.7",
    "2.8",
    "3.0",
    "3.1",
    "3.2",
    "3.3",
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.8",
    "3.9",
    "4.0",
    "4.1",
]

_STEPS = {
    0: "0.11:3 1.0:5 2.0:6 2.1:7 2.4:8 2.8:9 3.7:10 3.8:11 4.0:12",  # Produce
    1: "0.11:5 1.0:6 1.1:7 2.0:8 2.1:10 2.3:11 2.7:12 3.1:13 3.5:15 3.7:16 3.9:17",  # Fetch
    2: "0.11:2 2.0:3 2.1:4 2.2:5 2.8:6 3.0:7 3.5:8 3.9:9 4.0:10",  # ListOffsets
    3: "0.11:4 1.0:5 2.0:6 2.1:7 2.3:8 2.4:9 2.8:11 3.1:12 4.0:13",  # Metadata
    8: "0.11:3 2.0:4 2.1:6 2.3:7 2.4:8 3.7:9",  # OffsetCommit
    9: "0.11:3 2.0:4 2.1:5 2.4:6 2.5:7 3.0:8 3.7:9",  # OffsetFetch
    10: "0.11:1 2.0:2 2.4:3 3.0:4 3.8:5 3.9:6",  # FindCoordinator
    11: "0.11:2 2.0:3 2.2:4 2.3:5 2.4:6 2.5:7 3.2:9",  # JoinGroup
    12: "0.11:1 2.0:2 2.3:3 2.4:4",  # Heartbeat
    13: "0.11:1 2.0:2 2.4:4 3.2:5",  # LeaveGroup
    14: "0.11:1 2.0:2 2.3:3 2.4:4 2.5:5",  # SyncGroup
    15: "0.11:1 2.0:2 2.3:3 2.4:5 4.0:6",  # DescribeGroups
    16: "0.11:1 2.0:2 2.4:3 2.6:4 3.8:5",  # ListGroups
    17: "0.11:0 1.0:1",  # SaslHandshake
    18: "0.11:1 2.0:2 2.4:3 3.9:4",  # ApiVersions
    19: "0.11:2 2.0:3 2.4:5 2.7:6 2.8:7",  # CreateTopics
    20: "0.11:1 2.0:2 2.1:3 2.4:4 2.7:5 2.8:6",  # DeleteTopics
    21: "0.11:0 2.0:1 2.6:2",  # DeleteRecords
    22: "0.11:0 2.0:1 2.4:2 2.5:3 2.7:4 3.8:5",  # InitProducerId
    23: "0.11:0 2.0:1 2.1:2 2.3:3 2.8:4",  # OffsetForLeaderEpoch
    29: "0.11:0 2.0:1 2.5:2 3.3:3",  # DescribeAcls
    30: "0.11:0 2.0:1 2.5:2 3.3:3",  # CreateAcls
    31: "0.11:0 2.0:1 2.5:2 3.3:3",  # DeleteAcls
    32: "0.11:0 1.1:1 2.0:2 2.6:3 2.8:4",  # DescribeConfigs
    36: "1.0:0 2.2:1 2.5:2",  # SaslAuthenticate
    37: "1.0:0 2.0:1 2.5:2 2.7:3",  # CreatePartitions
    42: "1.1:0 2.0:1 2.4:2",  # DeleteGroups
    44: "2.3:0 2.4:1",  # IncrementalAlterConfigs
    47: "2.4:0",  # OffsetDelete
    60: "2.8:0 3.7:1 4.0:2",  # DescribeCluster
    68: "3.8:0 4.0:1",  # ConsumerGroupHeartbeat
    69: "3.8:0 4.0:1",  # ConsumerGroupDescribe
}


def newest_versions(release: str) -> dict[int, int]:
    """Return the newest version of each API by its key; APIs that the release does not have are missing.

    >>> newest_versions("2.4")[1], 60 in newest_versions("2.4.1")
    (11, False)
    """
    short = ".".join(release.split(".")[:2])
    if short not in RELEASES:
        raise ConfigError("max_versions", release, f"it must be a Kafka release from {RELEASES[0]} to {RELEASES[-1]}")
    reached = RELEASES.index(short)
    newest = {}
    for key, steps in _STEPS.items():
        for step in steps.split():
            since, _, version = step.partition(":")
            if RELEASES.index(since) <= reached:
                newest[key] = int(version)
    return newest

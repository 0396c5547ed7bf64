"""Offsets in ZooKeeper, for everyone who needs them: the stores, a client and a broker of the old protocol versions.

Needs the extra ``zookeeper``, which is loaded when a session connects.
"""

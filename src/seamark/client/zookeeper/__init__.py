"""Offsets in ZooKeeper beside Kafka, for groups of old consumers (offsets.storage)."""

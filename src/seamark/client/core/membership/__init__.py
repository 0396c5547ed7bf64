"""Membership in a group: join, sync, heartbeats, and what a rebalance takes and gives."""

"""Members of groups: join, sync, heartbeats, leave, and rebalances."""

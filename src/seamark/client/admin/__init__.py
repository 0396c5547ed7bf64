"""The admin client: topics, groups, offsets, configurations and access rules."""

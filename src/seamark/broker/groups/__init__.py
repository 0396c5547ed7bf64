"""The group coordinator's shell: loading, appends and timers around the pure core."""

"""Limits and fair shares: time, memory and file descriptors among the broker's clients."""

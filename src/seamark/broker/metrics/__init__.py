"""Metrics, health and the broker's log lines."""

"""Listening to streaming queries: progress, metrics, commits by the listener."""

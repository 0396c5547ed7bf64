"""Commits and generations of groups over time."""

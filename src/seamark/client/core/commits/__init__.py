"""Commits: what is sent, in which order, and what an answer means."""

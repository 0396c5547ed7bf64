"""Fetching: which partitions to ask for, what came back, and how it is handed out."""

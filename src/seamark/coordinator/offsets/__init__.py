"""Committed offsets: commits, fetches, deletion, expiry."""

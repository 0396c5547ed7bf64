"""Compaction: which record of a key is the last, and what is left of a batch."""

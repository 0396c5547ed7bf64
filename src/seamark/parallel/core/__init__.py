"""Lanes, frontier, retries and commits of the parallel consumer. Pure: no thread, no clock."""

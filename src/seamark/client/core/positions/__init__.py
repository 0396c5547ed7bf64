"""Positions: where each partition is read next, and how that is found out."""

"""Findings about groups, computed by Spark."""

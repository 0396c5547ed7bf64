"""Lifetimes: whole runs with faults, drawn from a seed."""

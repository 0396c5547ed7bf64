"""Benchmarks beside their peers; ``python -m benchmarks NAME``."""

"""Brokers in the simulated world, and the invariants that they must keep."""

"""The segments of a log: their batches, their index, and the scan that finds what is sound."""

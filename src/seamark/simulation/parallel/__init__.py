"""The parallel consumer in the simulated world."""

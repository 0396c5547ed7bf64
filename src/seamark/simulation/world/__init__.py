"""The simulated world: event loop, clock, disk, network, transcript."""

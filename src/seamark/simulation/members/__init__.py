"""Members, consumers and applications in the simulated world."""

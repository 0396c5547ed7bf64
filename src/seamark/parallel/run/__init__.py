"""The thread that drives the core, and what it logs."""

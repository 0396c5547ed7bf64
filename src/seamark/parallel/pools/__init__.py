"""Where handlers run: threads, an event loop, processes."""

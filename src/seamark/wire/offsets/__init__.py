"""What __consumer_offsets holds: keys and values of commits and groups."""

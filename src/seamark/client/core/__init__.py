"""What the consumer decides. Pure: no socket, no thread, no clock of its own."""

"""Bytes to values and back, for everything Kafka sends and stores. No I/O, no clock, no state between calls."""

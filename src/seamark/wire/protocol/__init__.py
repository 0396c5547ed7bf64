"""Kafka's protocol: APIs, headers, frames, error codes, messages."""

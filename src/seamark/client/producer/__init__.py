"""The producer that users hold, and how batches are collected, sent and acknowledged."""

"""The broker's settings: which keys exist, what they mean, and their values."""

"""How commands print: rows, text, durations, warnings."""

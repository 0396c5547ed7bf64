"""Jobs that fill the lake."""

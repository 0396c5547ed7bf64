"""Reading: batch and stream, and commits to the group."""

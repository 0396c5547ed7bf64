"""What happens when a log is opened: checkpoints, the mark of a clean end, and the cut before the first damage."""

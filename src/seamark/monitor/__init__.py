"""What a person sees of a cluster's groups: where they stand, how far behind, in what state."""

"""Records of the offsets topic: how state becomes records, and records become state."""

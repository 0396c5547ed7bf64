"""Records of __consumer_offsets as rows."""

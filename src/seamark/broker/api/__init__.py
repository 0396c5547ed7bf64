"""One handler per API, and the rules that several of them share."""

"""``seamark migrate``."""

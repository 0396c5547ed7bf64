"""The files of a log: the port with its crash semantics, its implementations, names, and how many are open."""

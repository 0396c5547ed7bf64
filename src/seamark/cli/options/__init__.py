"""Options that several commands take, and what a command does with them: the cluster, names in it, plans."""

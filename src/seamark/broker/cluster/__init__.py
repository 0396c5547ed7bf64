"""Topics, partitions, leaders and configurations: the state that all nodes share."""

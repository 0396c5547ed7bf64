"""The command line: one file per command group, loaded when its command is called."""

"""Bugs that the tests must find: twenty-odd written on purpose, and the rules that make others from the source."""

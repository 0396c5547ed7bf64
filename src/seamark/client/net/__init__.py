"""Connections, requests and answers on the one I/O thread of the process."""

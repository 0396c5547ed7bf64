"""The consumer that users hold, blocking and asyncio, over one body of calls."""

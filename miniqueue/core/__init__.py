"""The rules of the queue, and nothing else: no I/O, no clock, no asyncio, no logging; time comes in as `now_ms`."""

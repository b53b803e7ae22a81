"""The process: its configuration, its listeners, and how they are put together."""

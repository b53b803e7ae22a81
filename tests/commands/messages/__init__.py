"""The commands for messages."""

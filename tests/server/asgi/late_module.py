"""Imported by tests/server/asgi/test_late.py, and by nothing else."""

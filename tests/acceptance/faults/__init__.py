"""Crashes, floods and hostile peers, seen from outside."""

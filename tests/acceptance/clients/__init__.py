"""Clients that others wrote, against the real process: what they send by themselves, and how their calls go."""

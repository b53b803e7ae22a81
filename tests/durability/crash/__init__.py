"""Repeated kills and power failures, and the proof that nothing was lost."""

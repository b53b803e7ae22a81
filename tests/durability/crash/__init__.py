"""Kills and power cuts, over and over, and the proof that nothing was lost."""

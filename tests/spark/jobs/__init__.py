"""The jobs of `miniqueue pipeline`: load, archive, replay and stats, and what they leave in directories."""

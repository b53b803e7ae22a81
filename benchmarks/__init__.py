"""Measurements of miniqueue beside its peers, all in one run: `python -m benchmarks --help`."""

"""Copies that follow a broker while both sides are killed at random.

`loop` kills and judges, `load` publishes and remembers what was confirmed when.
"""

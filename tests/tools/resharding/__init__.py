"""Resharding: the plan, the pairs, the tool, and the broker on a store that was resharded."""

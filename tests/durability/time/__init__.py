"""Clocks that are set, and brokers that are stopped for a while."""

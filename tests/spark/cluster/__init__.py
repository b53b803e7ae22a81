"""The data source on a cluster and under kills; `soak_*.py` are the long runs of `make soak`."""

"""Clients of Redis Cluster, unmodified, against one process, which owns all slots."""

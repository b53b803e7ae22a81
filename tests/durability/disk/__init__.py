"""Disks that are full, slow or broken while the broker runs."""

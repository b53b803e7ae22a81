"""Long runs under a mixed load: memory, tasks and descriptors stay flat."""

"""The commands for topics, groups, dead letters, delayed messages, and schedules."""

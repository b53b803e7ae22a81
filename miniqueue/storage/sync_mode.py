"""When a write reaches the disk: the three values of the `-sync` setting."""

from enum import StrEnum


class SyncMode(StrEnum):
    """How durable a write is when it returns."""

    ALWAYS = "always"  # covered by a successful fdatasync: survives a power cut
    INTERVAL = "interval"  # with the kernel: survives a crash of the process; a timer calls `sync`
    NEVER = "never"  # with the kernel, which writes it out when it likes

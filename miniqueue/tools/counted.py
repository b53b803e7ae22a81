"""Counts, as people write them."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `0 keys`, `1 key`, `2 keys`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"

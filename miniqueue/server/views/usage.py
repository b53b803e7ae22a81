"""What a user may have in all shards together: each shard has a part of each limit, and a quota is of all of them."""

from collections.abc import Sequence

from miniqueue.core.settings.quotas import Quotas


def limit_of_all(name: str, limits: Sequence[int | None], quotas: Quotas) -> int | None:
    """Return the limit of what USAGE calls `name`, from that of each shard; None if there is none.

    Memory has no quota here, since each shard has a part of that quota, too.
    """
    quota = None if name == "memory_bytes" else quotas.members().get(f"max_{name}")
    parts = [limit for limit in limits if limit is not None]
    if len(parts) < len(limits):
        return quota
    return sum(parts) if quota is None else min(quota, sum(parts))

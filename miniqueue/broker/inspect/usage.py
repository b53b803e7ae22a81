"""Usage: what one user, or all together, have of what is limited, and how much of it they may have.

    {"user": "ada", "topics": {"used": 3, "limit": 10}, …, "memory": {"leases": 4096, …}}

The names of the fields are those of both protocols. A limit is None if there is none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import aclosing

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.shares import Pool
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.accounts import UNLIMITED, MemoryAccount

#: Number of topics that are counted in one iteration of the event loop.
TOPICS_IN_TURN = 1_000

#: By name: the user, how much is used of something and its limit, or memory by purpose.
Usage = Mapping[str, str | Mapping[str, int | None] | None]


async def usage_of(engine: Engine, user: str) -> Usage:
    """Return the usage of one user."""
    held_bytes = await _bytes_by_owner(engine, engine.topics.of_owner(user))
    return _usage(engine, user, held_bytes[user])


async def usage_of_all(engine: Engine) -> list[Usage]:
    """Return the usage of all clients together, under the user None, then that of each user, by name."""
    held_bytes = await _bytes_by_owner(engine, engine.topics.by_name.values())
    users = sorted({*engine.shares.users, *engine.memory.users, *filter(None, held_bytes)})
    of_all = _usage(engine, None, held_bytes.total())
    return [of_all, *(_usage(engine, user, held_bytes[user]) for user in users)]


async def _bytes_by_owner(engine: Engine, topics: Iterable[Topic]) -> Counter[str]:
    held_bytes: Counter[str] = Counter()
    async with aclosing(engine.share.in_turns(list(topics), TOPICS_IN_TURN)) as in_time:
        async for topic in in_time:
            if topic.id is not None:
                held_bytes[topic.settings.owner or ""] += topic.stored_bytes
    return held_bytes


def _usage(engine: Engine, user: str | None, held_bytes: int) -> Usage:
    shares, memory = engine.shares, engine.memory
    used = {pool: held_bytes if pool is Pool.BYTES else shares.used(pool, user) for pool in Pool}
    account: MemoryAccount | None = memory if user is None else memory.users.get(user)
    memory_limit = memory.max_bytes if user is None else memory.limit_of_user(user)[0]
    rate = None if user is None else shares.rates.get(user)
    return {
        "user": user,
        **{pool.value: {"used": used[pool], "limit": shares.limit_of(pool, user)} for pool in Pool},
        "messages_per_second": {
            "used": None if rate is None else rate.per_second,
            "limit": None if rate is None else rate.limit,
        },
        "memory_bytes": {
            "used": 0 if account is None else account.used_bytes,
            "limit": None if memory_limit >= UNLIMITED else memory_limit,
        },
        "memory": {} if account is None else {purpose.value: size for purpose, size in account.amounts().items()},
    }

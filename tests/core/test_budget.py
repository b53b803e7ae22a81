"""The budget: who was used longest ago gives way first."""

from miniqueue.broker.runtime.cache_budget import Budget


class Cache:
    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def evict(self) -> None:
        self.size_bytes = 0


def test_caches_within_the_limit_are_left_alone():
    budget, caches = Budget(30), [Cache(10) for _ in range(3)]
    for cache in caches:
        budget.touch(cache)
    assert budget.used_bytes == 30
    assert [cache.size_bytes for cache in caches] == [10, 10, 10]


def test_the_one_used_longest_ago_gives_way():
    budget, (first, second, third) = Budget(25), [Cache(10) for _ in range(3)]
    budget.touch(first)
    budget.touch(second)
    budget.touch(first)
    budget.touch(third)
    assert (first.size_bytes, second.size_bytes, third.size_bytes) == (10, 0, 10)
    assert budget.used_bytes == 20


def test_a_new_size_replaces_the_old_one():
    budget, cache = Budget(100), Cache(10)
    budget.touch(cache)
    cache.size_bytes = 40
    budget.touch(cache)
    assert budget.used_bytes == 40
    cache.size_bytes = 0
    budget.touch(cache)
    assert budget.used_bytes == 0


def test_the_last_cache_stays_even_over_the_limit():
    budget, cache = Budget(10), Cache(50)
    budget.touch(cache)
    assert (cache.size_bytes, budget.used_bytes) == (50, 50)

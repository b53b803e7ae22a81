"""Shares of pools and quotas of users, by themselves: when bytes are counted, and how fast messages may come."""

import pytest

from miniqueue.broker.model.limits import LimitCounts
from miniqueue.broker.model.shares import Held, MessageRate, Pool, Shares
from miniqueue.broker.runtime.accounts import Memory
from miniqueue.core.settings.quotas import Quotas
from miniqueue.errors import RateLimitError, ShareLimitError
from tests.fakes import ManualClock


class Counted:
    """What the topics of owners hold, and how often that was counted."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self.times = 0

    def __call__(self, _owner: str | None) -> int:
        self.times += 1
        return self.held_bytes


def shares_with(quotas: Quotas, *, size: int = 0) -> tuple[Shares, Counted]:
    """Return shares in which ada has quotas, with one gauge for topics, of which there may be `size`, and bytes."""
    shares, gauge = Shares(LimitCounts(), Memory(has_users=True), ManualClock(), has_users=True), Counted()
    shares.measure(Pool.BYTES, gauge)
    shares.measure(Pool.TOPICS, gauge, size, "-max-topics")
    shares.set_quotas({"ada": quotas, "bob": Quotas()})
    return shares, gauge


@pytest.mark.parametrize(
    ("size", "quota", "limit"),
    [(0, None, None), (100, None, 75), (0, 10, 10), (100, 10, 10), (100, 90, 75), (1, None, 1), (2, None, 1)],
)
def test_the_lower_of_share_and_quota_holds(size, quota, limit):
    shares, _ = shares_with(Quotas(max_topics=quota), size=size)
    assert shares.limit_of(Pool.TOPICS, "ada") == limit
    assert shares.limit_of(Pool.TOPICS, None) == (size or None)


def test_bytes_far_below_the_quota_are_counted_once_and_never_without_a_quota():
    shares, gauge = shares_with(Quotas(max_bytes=1000))
    for _ in range(900):
        shares.admit_bytes("ada", 1)
        shares.admit_bytes("bob", 1)
        shares.admit_bytes(None, 1)
        shares.tick()
    assert gauge.times == 1


def test_bytes_are_counted_again_before_a_refusal_and_then_once_a_second():
    shares, gauge = shares_with(Quotas(max_bytes=100))
    for _ in range(10):
        shares.admit_bytes("ada", 60)  # what was published is settled at once, so the gauge stays at 0
    assert gauge.times == 10
    gauge.held_bytes = 100
    for _ in range(50):
        with pytest.raises(ShareLimitError):
            shares.admit_bytes("ada", 60)
    assert gauge.times == 11
    gauge.held_bytes = 99
    shares.tick()
    shares.admit_bytes("ada", 1)
    assert gauge.times == 12


def test_a_second_of_messages_may_come_at_once_and_then_one_after_the_other():
    rate = MessageRate("ada", 10, 0.0)
    for _ in range(10):
        rate.spend(1, 100.0)
    with pytest.raises(RateLimitError) as caught:
        rate.spend(1, 100.0)
    assert caught.value.seconds == pytest.approx(0.1)
    rate.spend(1, 100.1)
    with pytest.raises(RateLimitError):
        rate.spend(1, 100.1)


def test_a_request_with_more_messages_than_the_quota_is_paid_for_by_waiting():
    rate = MessageRate("ada", 10, 0.0)
    rate.spend(100, 0.0)
    for now in (0.0, 5.0, 9.0):
        with pytest.raises(RateLimitError):
            rate.spend(1, now)
    rate.spend(1, 9.1)


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_the_average_is_the_quota(limit):
    rate, accepted = MessageRate("ada", limit, 0.0), 0
    for tick in range(10_000):
        try:
            rate.spend(1, tick / 1000)
        except RateLimitError:
            continue
        accepted += 1
    assert limit * 10 <= accepted <= limit * 11


def test_users_who_keep_their_quota_keep_what_they_have_spent():
    shares, _ = shares_with(Quotas(max_messages_per_second=2))
    before = shares.rates["ada"]
    shares.set_quotas({"ada": Quotas(max_messages_per_second=2, max_topics=1)})
    assert shares.rates["ada"] is before
    shares.set_quotas({"ada": Quotas(max_messages_per_second=3)})
    assert shares.rates["ada"].limit == 3
    shares.set_quotas({"ada": Quotas()})
    assert not shares.rates


def test_a_quota_counts_what_is_held_in_other_shards():
    shares, gauge = shares_with(Quotas(max_topics=4, max_bytes=100))
    gauge.held_bytes = 1
    shares.held_elsewhere = {"ada": Held(topics=2, bytes=90)}
    shares.admit(Pool.TOPICS, "ada")
    with pytest.raises(ShareLimitError):
        shares.admit(Pool.TOPICS, "ada", 2)
    shares.admit_bytes("ada", 9)
    with pytest.raises(ShareLimitError):
        shares.admit_bytes("ada", 10)


def test_a_share_of_a_pool_is_of_this_shard_alone():
    shares, _ = shares_with(Quotas(), size=4)
    shares.held_elsewhere = {"ada": Held(topics=100)}
    shares.admit(Pool.TOPICS, "ada", 3)


def test_messages_a_second_elsewhere_are_a_part_of_the_quota():
    rate = MessageRate("ada", 10, 0.0)
    rate.spend(2, 0.0, elsewhere=8)
    with pytest.raises(RateLimitError):
        rate.spend(1, 0.4, elsewhere=8)
    rate.spend(1, 0.5, elsewhere=8)
    rate.spend(1, 1.5, elsewhere=50)  # one message a second is left at the least
    with pytest.raises(RateLimitError):
        rate.spend(1, 1.9, elsewhere=50)


def test_users_without_quotas_or_without_anything_are_not_told_to_other_shards():
    shares, gauge = shares_with(Quotas(max_topics=4))
    shares.measure(Pool.CONNECTIONS, lambda _user: 0)
    assert shares.held() == {}
    gauge.held_bytes = 3
    assert shares.held() == {"ada": Held(3, 3, 0, 0)}

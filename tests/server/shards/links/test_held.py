"""What users with quotas have in each shard is added up, and forgotten when a shard says nothing more."""

from miniqueue.broker.model.shares import Held
from miniqueue.server.shards.links.held import MAX_AGE_SECONDS, HeldByShards


class Shares:
    """The shares of a shard, without pools."""

    def __init__(self) -> None:
        self.held_elsewhere: dict[str, Held] = {}

    def held(self) -> dict[str, Held]:
        return {"ada": Held(1, 200, 3, 4)}


def test_what_others_say_is_added_up():
    shares = Shares()
    held = HeldByShards(shares, lambda: 0.0)
    held.take("1", held.own())
    held.take("2", {"ada": [1, 1, 1, 1], "bob": [5, 0, 0, 0]})
    assert shares.held_elsewhere == {"ada": Held(2, 201, 4, 5), "bob": Held(5)}
    held.take("2", {})
    assert shares.held_elsewhere == {"ada": Held(1, 200, 3, 4)}


def test_what_a_shard_has_said_is_forgotten_when_it_says_nothing_more():
    shares, now = Shares(), [0.0]
    held = HeldByShards(shares, lambda: now[0])
    held.take("1", held.own())
    now[0] = MAX_AGE_SECONDS
    held.take("2", {"bob": [5, 0, 0, 0]})
    assert shares.held_elsewhere == {"bob": Held(5)}

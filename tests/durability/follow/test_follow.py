"""The short forms of `make soak` with `follow` and `follow-shards`, and proof that the judgement sees what it must."""

import pytest

from tests.durability.follow.load import Publisher
from tests.durability.follow.loop import FollowLoop, findings_in
from tests.durability.follow.shards import FollowShardsLoop

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_a_copy_holds_what_its_printed_lag_says_however_often_both_sides_are_killed(tmp_path, trust):
    judged = FollowLoop(tmp_path, trust, seed=7).run(kills=4, seconds=2.0)
    print(judged.line())
    assert judged.findings == []
    assert min(judged.kills.values()) > 0
    assert judged.held > 10
    assert judged.copies < 3  # it is continued, even after a restart of the broker


def test_a_copy_of_shards_has_each_message_once_whichever_process_is_killed(tmp_path):
    followed = FollowShardsLoop(tmp_path, seed=7).follow(kills=3)
    print(followed.line())
    assert followed.findings == []
    assert followed.held > 10
    assert followed.moved > 10
    assert followed.copies < 3  # it is continued, even after a restart of the broker


@pytest.mark.parametrize(
    ("held", "word"),
    [
        ([0, 1], "missing"),
        ([0, 1, 2, 4], "holes"),
        ([0, 2, 1, 3], "out of order"),
        ([0, 1, 2, 2, 3], "twice"),
        ([0, 1, 2, 3, 9], "never published"),
    ],
)
def test_the_judgement_finds_what_is_wrong(held, word):
    publisher = Publisher(0, "t")
    publisher.tried_count, publisher.confirmed = 5, {number: float(number) for number in range(4)}
    assert any(word in finding for finding in findings_in(publisher, held, 2.5))
    assert findings_in(publisher, [0, 1, 2], 2.5) == findings_in(publisher, [0, 1, 2, 3, 4], 2.5) == []

"""What the rules say of messages that a lost reply may have handed out."""

from random import Random

import hiredis
import pytest

from tests.model.acts.acts import Acts
from tests.model.grounds import GROUNDS
from tests.model.rules.facts import DEFAULT, Wishes
from tests.model.rules.ledger import Ledger

(GROUND,) = [ground for ground in GROUNDS if ground.name == b"resting"]


@pytest.fixture
def acts():
    groups = {GROUND.name: GROUND.sure_groups}
    ledger = Ledger({GROUND.name: GROUND.rules}, lambda: 0, lambda: 0.0, groups)
    published = ledger.publish(GROUND.name, [b"1", b"2"], Wishes())
    ledger.published(published, [b"0-0", b"0-1"])
    return Acts(ledger, Random(0), [GROUND], bytes)


def judge(acts, acknowledged, lag):
    """Judge the figures of the default group after a crash, none of which are missed."""
    acts.ledger.crash()
    figures = {b"acknowledged": acknowledged, b"dropped": 0, b"moved": 0, b"lag": lag, b"missed": 0}
    acts.ledger.judge_groups(GROUND.name, {DEFAULT: figures}, published=2)


@pytest.mark.parametrize("reply", [None, hiredis.ReplyError("UNKNOWN"), hiredis.ReplyError("UNAVAILABLE")])
def test_messages_in_a_lost_reply_with_autoack_are_not_missed(acts, reply):
    acts.received(acts.ledger.ask("receive and end"), GROUND.name, DEFAULT, reply, None)
    of_others = list(acts.ledger.shares(GROUND.name, b"slow"))
    assert acts.ledger.lost() == of_others
    judge(acts, acknowledged=2, lag=0)


def test_messages_that_nobody_can_have_had_are_missed(acts):
    acts.received(acts.ledger.ask("receive"), GROUND.name, DEFAULT, None, 5.0)
    with pytest.raises(AssertionError, match="has missed 2 messages, but 0 were reported"):
        judge(acts, acknowledged=2, lag=0)

"""Which topics `miniqueue top` asks for, and what it knows of them."""

from collections import Counter

import pytest

from miniqueue.commands.watching.sampling import Sampler
from miniqueue_client import RefusedError

FIGURES = ("ready", "leased", "delayed", "oldest_seconds", "publish_rate_10s", "ack_rate_10s", "consumers")


class FakeBroker:
    """Topics with lags, and what was asked for."""

    def __init__(self, lags, settings=None, hidden=()):
        self.lags = lags
        self.settings = settings or {}
        self.hidden = hidden
        self.asked = Counter()

    def topics(self):
        self.asked["TOPICS"] += 1
        return sorted(self.lags)

    def execute_all(self, calls):
        return [self.answer(*call.words) for call in calls]

    def answer(self, command, *words):
        topic = words[-1]
        self.asked[command] += 1
        if topic in self.hidden:
            return RefusedError("NOPERM", "no role")
        if topic not in self.lags:
            return RefusedError("NOTOPIC", "no such topic")
        if command == "TOPIC":
            return {"dead_letter_topic": self.settings.get(topic, "default")}
        return {"depth": self.lags[topic], **dict.fromkeys(FIGURES, 0)}


def lags_of(sampler):
    return {row["topic"]: row.get("lag") for row in sampler.rows()}


def test_a_refresh_asks_for_a_bounded_number_of_topics_whatever_their_number():
    broker = FakeBroker({f"t{n:05}": n for n in range(10_000)})
    sampler = Sampler(broker, lambda topic: True, max_sampled=500)
    sampler.refresh()
    for _ in range(20):
        broker.asked.clear()
        sampler.refresh(shown=["t00007", "t09999"])
        assert 498 <= broker.asked["STATS"] <= 500
        assert broker.asked["TOPIC"] <= 500
    assert None not in lags_of(sampler).values()


def test_the_topics_that_are_shown_are_asked_for_each_time():
    broker = FakeBroker({f"t{n}": 0 for n in range(100)})
    sampler = Sampler(broker, lambda topic: True, max_sampled=10)
    sampler.refresh()
    for lag in range(1, 5):
        broker.lags["t77"] = lag
        sampler.refresh(shown=["t77"])
        assert lags_of(sampler)["t77"] == lag


def test_dead_letters_are_those_of_the_topic_that_the_settings_name():
    broker = FakeBroker({"a": 1, "a.dlq": 7, "b": 1, "letters": 5, "c": 1}, {"b": "letters", "letters": "gone"})
    sampler = Sampler(broker, lambda topic: topic in "abc")
    sampler.refresh_all()
    assert {row["topic"]: row["dead"] for row in sampler.rows()} == {"a": 7, "b": 5, "c": 0}


def test_topics_come_and_go():
    broker = FakeBroker({"a": 1, "b": 2})
    sampler = Sampler(broker, lambda topic: True)
    sampler.refresh()
    del broker.lags["a"]
    broker.lags["c"] = 3
    for _ in range(3):
        sampler.refresh(shown=["a", "b"])
    assert lags_of(sampler) == {"b": 2, "c": 3}


def test_topics_that_the_user_may_not_inspect_have_only_a_name():
    broker = FakeBroker({"a": 1, "b": 2}, hidden={"a"})
    sampler = Sampler(broker, lambda topic: True)
    sampler.refresh_all()
    assert lags_of(sampler) == {"a": None, "b": 2}


def test_other_refusals_are_errors():
    broker = FakeBroker({"a": 1})
    broker.execute_all = lambda calls: [RefusedError("NOAUTH", "authenticate")] * len(calls)
    with pytest.raises(RefusedError, match="NOAUTH"):
        Sampler(broker, lambda topic: True).refresh()


def test_settings_are_asked_for_again_now_and_then():
    broker = FakeBroker({"a": 1, "letters": 3})
    sampler = Sampler(broker, lambda topic: topic == "a")
    sampler.refresh()
    broker.settings["a"] = "letters"
    for _ in range(31):
        sampler.refresh(shown=["a"])
    assert sampler.rows()[0]["dead"] == 3
    assert broker.asked["TOPIC"] == 2

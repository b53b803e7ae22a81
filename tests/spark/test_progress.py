"""A group goes along with a stream, and never gets in front of it."""

import pytest

from miniqueue.client import Client, RefusedError
from miniqueue.spark.progress import make_groups, move_groups
from tests.client.broker import RespBroker

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    broker = RespBroker(tmp_path_factory.mktemp("broker"), "-storage", "memory")
    with Client(broker.url) as client:
        yield client
    broker.end()


def lag(client, topic):
    """Return how many messages the group has to get."""
    [group] = [one for one in client.groups(topic) if one.name == "g"]
    return group.lag


def test_a_group_is_made_where_a_stream_begins_and_goes_on_with_it(client):
    client.publish_many("one", ["a", "b", "c"])
    make_groups(client, "g", {"one": {"0": 1}})
    assert lag(client, "one") == 2
    make_groups(client, "g", {"one": {"0": 3}})  # it is there
    assert lag(client, "one") == 2
    move_groups(client, "g", {"one": {"0": 2}})
    assert lag(client, "one") == 1
    move_groups(client, "g", {"one": {"0": 3}})
    assert lag(client, "one") == 0


def test_with_several_partitions_it_stays_behind_rather_than_in_front(client):
    for text, priority in (("a", "normal"), ("b", "high"), ("c", "normal"), ("d", "high")):
        client.publish("two", text, priority=priority)
    client.create_group("two", "g")
    move_groups(client, "g", {"two": {"0": 2, "0.high": 1}})
    behind = lag(client, "two")
    assert 1 <= behind <= 3  # "d", and those in the other partition that were committed in the same millisecond
    move_groups(client, "g", {"two": {"0": 2, "0.high": 2}})  # all was read: it waits for what comes
    assert lag(client, "two") == behind
    client.publish("two", "e")
    move_groups(client, "g", {"two": {"0": 2, "0.high": 2}})
    assert 1 <= lag(client, "two") <= behind + 1


def test_what_every_group_is_done_with_is_deleted(client):
    client.create_group("gone", "g")
    client.publish_many("gone", ["a", "b"])
    client.publish_many("gone", ["c"])
    move_groups(client, "g", {"gone": {"0": 2}})
    while client.partitions("gone")[0].earliest < 2:
        pass
    assert [message.text for message in client.read("gone").messages] == ["c"]


def test_other_refusals_are_errors(client):
    with pytest.raises(RefusedError, match="BADGROUP"):
        make_groups(client, "two words", {"one": {"0": 0}})

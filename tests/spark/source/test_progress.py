"""A group goes along with a stream, and never gets in front of it."""

from urllib.parse import urlsplit

import pytest

from miniqueue.spark.progress import make_groups, move_groups
from miniqueue_client import Client, RefusedError
from tests.client.broker import RespBroker
from tests.client.lossy_proxy import LossyProxy

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


def test_a_group_is_made_although_the_reply_is_lost(client):
    client.publish_many("unheard", ["a", "b", "c"])
    proxy = LossyProxy(urlsplit(client.address.url).port, only=b"GROUP")
    proxy.losses = 1
    with Client(f"redis://127.0.0.1:{proxy.port}") as behind:
        make_groups(behind, "g", {"unheard": {"0": 1}})
    proxy.end()
    assert (proxy.losses, lag(client, "unheard")) == (0, 2)


def test_a_group_that_was_deleted_meanwhile_goes_on_where_reading_does(client):
    client.publish_many("bereft", ["a", "b", "c"])
    make_groups(client, "g", {"bereft": {"0": 0}})
    client.delete_group("bereft", "g")
    move_groups(client, "g", {"bereft": {"0": 2}})
    assert lag(client, "bereft") == 1


def test_with_several_partitions_it_goes_on_in_each_of_them(client):
    client.create_topic("two", partitions=2)
    for text, key, priority in (("a", "1", "normal"), ("b", "2", "high"), ("c", "3", "normal"), ("d", "4", "high")):
        client.publish("two", text, key=key, priority=priority)
    ends = {one.partition: one.end for one in client.partitions("two")}
    make_groups(client, "g", {"two": dict.fromkeys(ends, 0)})
    assert lag(client, "two") == 4
    first = next(word for word, end in ends.items() if end)
    move_groups(client, "g", {"two": dict.fromkeys(ends, 0) | {first: 1}})
    assert lag(client, "two") == 3
    move_groups(client, "g", {"two": ends})
    assert lag(client, "two") == 0
    client.publish("two", "e")
    move_groups(client, "g", {"two": ends})
    assert lag(client, "two") == 1


@pytest.mark.parametrize(("place", "said"), [("0-1,0-2", "one message of a partition"), ("0-0,7-0", "NOPARTITION")])
def test_places_that_cannot_be_are_refused(client, place, said):
    client.publish("places", "a")
    with pytest.raises(RefusedError, match=said):
        client.create_group("places", "wrong", start=place)


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

"""Events: their handlers and the order of these; `changed` never delivers messages, `readable` does."""

from functools import partial

import pytest

from miniqueue.broker.commit.events import Events
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.fields import Side
from miniqueue.errors import OutcomeUnknownError
from tests.fakes import settle_down


async def _nothing() -> None:
    pass


def test_handlers_are_called_in_the_order_in_which_they_were_connected():
    calls: list[tuple[str, object]] = []

    def handler(name: str):
        return lambda subject: calls.append((name, subject))

    events, topic, content = Events(), Topic(b"t"), StoreContent([], 1, [], {}, [], {}, {}, [])
    last = handler("c")
    events.connect(
        restored=[handler("b"), handler("a")],
        changed=[handler("d"), last],
        unless_woken=[last],
        readable=handler("e"),
        loaded=handler("f"),
        before_commit=_nothing,
        freed=partial(handler("g"), None),
    )
    events.restored(content)
    events.changed(topic)
    events.woken(topic)
    events.readable(topic)
    events.loaded(topic)
    events.freed()
    assert "".join(name for name, _ in calls) == "badcdefg"
    assert [subject for _, subject in calls] == [content] * 2 + [topic] * 5 + [None]


async def test_changed_delivers_nothing_and_readable_does(world):
    """Lanes are made in the middle of a delivery, where what has expired becomes a dead letter."""
    await world.publish(b"t", b"a")
    await world.broker.admin.pause(b"t", Side.OUT, seconds=5).wait()
    leases = []
    world.broker.consumer(b"t", leases.extend, leases.append).request()
    world.clock.advance(6)
    topic = world.broker._engine.topics.by_name[b"t"]
    world.broker._engine.events.changed(topic)
    assert not topic.is_paused_out
    await settle_down()
    assert leases == []
    world.broker._engine.events.readable(topic)
    assert [lease.payloads for lease in leases] == [[b"a"]]


async def change_a_setting(world) -> None:
    await world.broker.admin.change(b"t", {"max_rate": 5}).wait()


async def make_a_group(world) -> None:
    await world.broker.groups.create(b"t", b"g")


async def make_a_lane(world) -> None:
    await world.broker.publish_with(b"t", b"b", PublishOptions(priority=Priority.HIGH)).commit.wait()


async def make_the_topic_again(world) -> None:
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"b")


async def read_the_store_again(world) -> None:
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"b")
    await settle_down()


@pytest.mark.parametrize(
    "act", [change_a_setting, make_a_group, make_a_lane, make_the_topic_again, read_the_store_again]
)
async def test_a_topic_that_has_changed_is_readable_afterwards(act, world):
    await world.publish(b"t", b"a")
    events, calls = world.broker._engine.events, []
    readable = events.readable

    def note(topic: Topic) -> None:
        calls.append("readable")
        readable(topic)

    events._changed = [*events._changed, lambda topic: calls.append("changed")]
    events.readable = note
    await act(world)
    assert "changed" in calls
    assert calls[-1] == "readable"

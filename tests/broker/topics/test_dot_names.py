"""Nothing new is named '.' or '..', which no HTTP path can have; what earlier versions named so can be used up."""

import pytest

from miniqueue.broker.engine import topics
from miniqueue.core.message.names import check_topic
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors import InvalidLineError, InvalidTopicError
from miniqueue.errors.requests import InvalidGroupError, InvalidOptionError
from miniqueue.tools.lines import groups, schedules, settings

DOTS = pytest.mark.parametrize("dots", [b".", b".."])


@DOTS
async def test_no_topic_is_made(dots, world):
    broker = world.broker
    for make in (
        lambda: broker.publish(dots, [b"a"]),
        lambda: broker.publish_with(dots, b"a", PublishOptions()),
        lambda: broker.publish_with(dots, b"a", PublishOptions(delay_seconds=5.0)),
        lambda: broker.admin.create(dots, {}),
        lambda: broker.scheduler.set(b"s", Schedule(dots, b"a", every_ms=1000)),
        lambda: broker.admin.create(b"t", {"dead_letter_topic": dots.decode()}),
    ):
        with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
            make()
    with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
        await broker.groups.create(dots, b"g")
    await world.publish(b"t", b"a")
    with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
        await broker.redrive(b"t", target=dots)
    with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
        broker.admin.change(b"t", {"dead_letter_topic": dots.decode()})
    assert broker.topics() == [b"t"]


@DOTS
async def test_no_group_and_no_schedule_is_made(dots, world):
    broker = world.broker
    await world.publish(b"t", b"a")
    with pytest.raises(InvalidGroupError, match="no HTTP path can have"):
        await broker.groups.create(b"t", dots)
    with pytest.raises(InvalidGroupError, match="no HTTP path can have"):
        broker.leases.receive(b"t", ReceiveOptions(group=dots), print, print)
    with pytest.raises(InvalidOptionError, match="no HTTP path can have"):
        broker.scheduler.set(dots, Schedule(b"t", b"a", every_ms=1000))
    assert len([group async for group in broker.groups.figures(b"t")]) == 1
    assert broker.scheduler.count == 0


@DOTS
async def test_a_topic_of_an_earlier_version_can_be_filled_drained_and_deleted(dots, monkeypatch, world):
    with monkeypatch.context() as earlier:
        earlier.setattr(topics, "check_new_topic", check_topic)
        await world.publish(dots, b"a", b"b")
    await world.restart()
    assert world.broker.topics() == [dots]
    await world.publish(dots, b"c")
    assert await world.drain(dots) == [b"a", b"b", b"c"]
    assert await world.broker.delete_topic(dots)
    assert world.broker.topics() == []
    with pytest.raises(InvalidTopicError):
        world.broker.publish(dots, [b"d"])


@pytest.mark.parametrize(
    ("decode", "line"),
    [
        (settings.decode, b'{"topic":".","settings":{}}'),
        (groups.decode, b'{"topic":"..","groups":["default"]}'),
        (groups.decode, b'{"topic":"t","groups":["."]}'),
        (
            schedules.decode,
            b'{"schedule":"s","next_at":1,"topic":".","every_ms":60000,"missed":"all","text":"x"}',
        ),
        (
            schedules.decode,
            b'{"schedule":"..","next_at":1,"topic":"t","every_ms":60000,"missed":"all","text":"x"}',
        ),
    ],
)
def test_nothing_of_that_name_is_imported(decode, line):
    with pytest.raises(InvalidLineError, match="no HTTP path can have"):
        decode(line)

"""Nothing new is named '.' or '..', which no HTTP path can have; what earlier versions named so can be used up."""

import pytest

from miniqueue.broker import registry
from miniqueue.core.group_errors import InvalidGroupError
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.names import check_topic
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.receiving import ReceiveOptions
from miniqueue.core.schedule import Schedule
from miniqueue.errors import InvalidLineError, InvalidTopicError
from miniqueue.tools import group_lines, schedule_lines, settings_lines
from tests.broker.support import run

DOTS = pytest.mark.parametrize("dots", [b".", b".."])


@DOTS
def test_no_topic_is_made(dots):
    async def body(world):
        broker = world.broker
        for make in (
            lambda: broker.publish(dots, [b"a"]),
            lambda: broker.publish_with(dots, b"a", PublishOptions()),
            lambda: broker.publish_with(dots, b"a", PublishOptions(delay_seconds=5.0)),
            lambda: broker.configurator.create(dots, {}),
            lambda: broker.scheduler.set(b"s", Schedule(dots, b"a", every_ms=1000)),
            lambda: broker.configurator.create(b"t", {"dead_letter_topic": dots.decode()}),
        ):
            with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
                make()
        with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
            await broker.groups.create(dots, b"g")
        await world.publish(b"t", b"a")
        with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
            await broker.redriver.redrive(b"t", target=dots)
        with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
            broker.configurator.change(b"t", {"dead_letter_topic": dots.decode()})
        assert broker.topics() == [b"t"]

    run(body)


@DOTS
def test_no_group_and_no_schedule_is_made(dots):
    async def body(world):
        broker = world.broker
        await world.publish(b"t", b"a")
        with pytest.raises(InvalidGroupError, match="no HTTP path can have"):
            await broker.groups.create(b"t", dots)
        with pytest.raises(InvalidGroupError, match="no HTTP path can have"):
            broker.leasing.receive(b"t", ReceiveOptions(group=dots), print, print)
        with pytest.raises(InvalidOptionError, match="no HTTP path can have"):
            broker.scheduler.set(dots, Schedule(b"t", b"a", every_ms=1000))
        assert len(await broker.groups.figures(b"t")) == 1
        assert broker.scheduler.count == 0

    run(body)


@DOTS
def test_a_topic_of_an_earlier_version_can_be_filled_drained_and_deleted(dots, monkeypatch):
    async def body(world):
        with monkeypatch.context() as earlier:
            earlier.setattr(registry, "check_new_topic", check_topic)
            await world.publish(dots, b"a", b"b")
        await world.restart()
        assert world.broker.topics() == [dots]
        await world.publish(dots, b"c")
        assert await world.drain(dots) == [b"a", b"b", b"c"]
        assert await world.broker.delete_topic(dots)
        assert world.broker.topics() == []
        with pytest.raises(InvalidTopicError):
            world.broker.publish(dots, [b"d"])

    run(body)


@pytest.mark.parametrize(
    ("decode", "line"),
    [
        (settings_lines.decode, b'{"topic":".","settings":{}}'),
        (group_lines.decode, b'{"topic":"..","groups":["default"]}'),
        (group_lines.decode, b'{"topic":"t","groups":["."]}'),
        (
            schedule_lines.decode,
            b'{"schedule":"s","next_at":1,"topic":".","every_ms":60000,"missed":"all","text":"x"}',
        ),
        (
            schedule_lines.decode,
            b'{"schedule":"..","next_at":1,"topic":"t","every_ms":60000,"missed":"all","text":"x"}',
        ),
    ],
)
def test_nothing_of_that_name_is_imported(decode, line):
    with pytest.raises(InvalidLineError, match="no HTTP path can have"):
        decode(line)

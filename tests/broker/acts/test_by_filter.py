"""Acts on all messages that a filter selects: which, in which order, how many, and as tasks that outlive the broker."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from miniqueue.broker.acts import by_filter as filtering
from miniqueue.broker.acts import tasks as keeping
from miniqueue.broker.acts.orders import MessageAct
from miniqueue.broker.acts.requests import parse_task, purge_task, redrive_task
from miniqueue.broker.acts.task import Status, of_members
from miniqueue.broker.inspect.peeked import State
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.fields import Side
from miniqueue.errors import InternalError, LimitReachedError, NotPermittedError, UnknownTaskError
from miniqueue.errors.requests import InvalidOptionError, PausedError, UnknownGroupError, UnknownTopicError
from miniqueue.storage.format import tasks as stored_tasks
from tests.broker.acts.test_by_id import dead, listed
from tests.broker.inspect.test_peek import ORDER, scatter
from tests.broker.support import World
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of


def task_of(world, act, topic=b"t", **options):
    words = {name: str(value).encode() for name, value in options.items()}
    return parse_task(act, topic, words, world.clock.now_ms())


async def run(world, act, topic=b"t", *, is_dry=False, **options):
    return await world.broker.by_filter.run(task_of(world, act, topic, **options), is_dry=is_dry)


async def ended(world, number):
    """Return a task when it has ended."""
    for _ in range(1000):
        await settle_down()
        if world.broker.tasks.get(number).status is not Status.RUNNING:
            break
    await world.commit()
    return world.broker.tasks.get(number)


@pytest.fixture(params=[1000, 2])
def step(request, monkeypatch):
    """Make steps small, too."""
    monkeypatch.setattr(filtering, "STEP_MESSAGES", request.param)
    monkeypatch.setattr(filtering, "STEP_SCAN", max(3, request.param))
    return request.param


async def numbered(world, count, **options):
    for number in range(count):
        key = b"odd" if number % 2 else b"even"
        world.broker.publish_with(b"t", b"%d" % number, PublishOptions(key=key, **options))
    await world.commit()


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_is_selected_is_deleted_and_counted_before(step, is_restarted, world):
    await numbered(world, 9)
    await numbered(world, 2, delay_seconds=60)
    if is_restarted:
        await world.restart()
    assert await run(world, MessageAct.DELETE, key="odd", is_dry=True) == 5
    assert len(await listed(world)) == 9
    assert await run(world, MessageAct.DELETE, key="odd") == 5
    assert await run(world, MessageAct.DELETE, key="odd") == 0
    assert await run(world, MessageAct.DELETE, contains="0", state="delayed") == 1
    await world.restart()
    assert problems_of(world.store._values) == []
    assert await world.drain(b"t") == [b"0", b"2", b"4", b"6", b"8"]


async def test_everything_is_deleted_wherever_it_waits_but_what_is_leased(step, world):
    holders = await scatter(world)
    assert await run(world, MessageAct.DELETE) == len(ORDER) + 2
    holders[7].consumer.nack()
    assert await world.drain(b"t") == [b"7"]
    assert problems_of(world.store._values) == []


async def test_all_groups_lose_a_message_or_the_one_that_is_named(step, world):
    await numbered(world, 6)
    await world.broker.groups.create(b"t", b"g")
    (await world.holding(b"t")).consumer.ack()
    assert await run(world, MessageAct.DELETE, key="even", is_dry=True) == 3
    assert await run(world, MessageAct.DELETE, key="odd", group="g") == 3
    assert await listed(world) == [b"1", b"2", b"3", b"4", b"5"]
    assert await run(world, MessageAct.DELETE, key="even") == 3
    assert await world.broker.inspect.peek(b"t", group=b"g") == []
    assert await world.drain(b"t") == [b"1", b"3", b"5"]


async def test_messages_at_the_front_keep_their_order_over_many_steps(step, world):
    await numbered(world, 9)
    (await world.holding(b"t")).consumer.nack()
    assert await run(world, MessageAct.FRONT, key="odd") == 4
    (await world.holding(b"t")).consumer.nack()
    await world.restart()
    assert await listed(world) == [b"1", b"3", b"5", b"7", b"0", b"2", b"4", b"6", b"8"]
    assert problems_of(world.store._values) == []


async def test_delayed_messages_are_made_due(step, world):
    await numbered(world, 4, delay_seconds=600)
    await numbered(world, 4)
    for _ in range(3):
        (await world.holding(b"t")).consumer.dack(500)
    assert await run(world, MessageAct.DUE, key="odd", delay=5000) == 3
    assert await run(world, MessageAct.DUE, key="odd", delay=5) == 3
    assert len(await listed(world, State.DELAYED)) == 7
    assert await run(world, MessageAct.DUE, key="odd") == 3
    await settle_down()
    assert sorted(await listed(world)) == [b"1", b"1", b"3", b"3"]


async def test_dead_letters_are_redriven_by_reason_and_limit(step, world):
    await dead(world, *[b"%d" % number for number in range(7)])
    await world.publish(b"t.dlq", b"none")
    assert await run(world, MessageAct.REDRIVE, b"t.dlq", reason="other") == 0
    assert await run(world, MessageAct.REDRIVE, b"t.dlq", reason="broken", limit=3) == 3
    assert await run(world, MessageAct.REDRIVE, b"t.dlq", contains="5", to="other") == 1
    assert await listed(world) == [b"0", b"1", b"2"]
    assert await run(world, MessageAct.REDRIVE, b"t.dlq") == 3
    assert await world.drain(b"t.dlq") == [b"none"]
    assert await world.drain(b"other") == [b"5"]


async def run_on_dead(world, act, topic=b"t", *, is_dry=False, **options):
    """Act on the dead letters of a topic; return their number, and the names of topics whose rights were checked."""
    checked, task = [], task_of(world, act, topic, state="dead", **options)
    await world.broker.by_filter.locate(task, checked.append)
    return await world.broker.by_filter.run(task, is_dry=is_dry), checked


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_the_dead_letters_of_a_topic_are_acted_on_where_they_are(step, is_restarted, world):
    await world.broker.admin.create(b"t", {"dead_letter_topic": "graves"}).wait()
    await dead(world, *[b"%d" % number for number in range(7)])
    await world.publish(b"graves", b"no letter of t")
    (await world.holding(b"graves")).consumer.dack(60)
    if is_restarted:
        await world.restart()
    assert await run_on_dead(world, MessageAct.DELETE, is_dry=True) == (6, [b"graves"]), "a delayed one is not ready"
    assert await run_on_dead(world, MessageAct.REDRIVE, contains="3") == (1, [b"graves"])
    assert await run_on_dead(world, MessageAct.REDRIVE, contains="5", to="u") == (1, [b"graves"])
    assert await run_on_dead(world, MessageAct.DELETE, reason="other") == (0, [b"graves"])
    assert await run_on_dead(world, MessageAct.DELETE, older=0, limit=2) == (2, [b"graves"])
    assert await run_on_dead(world, MessageAct.DELETE, b"graves") == (0, []), "it has no dead letters"
    assert await listed(world) == [b"3"]
    assert await listed(world, topic=b"graves") == [b"4", b"6", b"no letter of t"]
    assert problems_of(world.store._values) == []


async def test_a_topic_without_dead_letters_has_none_to_act_on(world):
    await world.publish(b"t", b"a")
    await world.publish(b"t" * 255, b"a")
    for topic in (b"t", b"t" * 255):  # the name of the topic for dead letters would be too long
        assert await run_on_dead(world, MessageAct.DELETE, topic) == (0, [])
    task = task_of(world, MessageAct.REDRIVE, state="dead")
    await world.broker.by_filter.locate(task, lambda _: None)
    number = await world.broker.tasks.begin(task)
    assert world.broker.tasks.get(number).status is Status.DONE
    with pytest.raises(UnknownTopicError):
        await run_on_dead(world, MessageAct.DELETE, b"nothing")


async def test_a_task_on_dead_letters_continues_after_a_restart(world):
    await dead(world, *[b"%d" % number for number in range(6)])
    await world.publish(b"t.dlq", b"none")
    task = task_of(world, MessageAct.DELETE, state="dead", rate="0.001")
    await world.broker.by_filter.locate(task, lambda _: None)
    number = await world.broker.tasks.begin(task)
    await settle_down()
    await world.restart()
    continued = world.broker.tasks.get(number)
    assert (continued.topic, continued.selection.filter.origin) == (b"t.dlq", b"t")
    *letters, last = await listed(world, topic=b"t.dlq")
    assert (len(letters) < 6, last) == (True, b"none")


async def test_who_may_not_act_on_dead_letters_does_nothing(world):
    await dead(world, b"a")

    def refuse(_name):
        raise NotPermittedError("ADMIN")

    task = task_of(world, MessageAct.DELETE, state="dead")
    with pytest.raises(NotPermittedError):
        await world.broker.by_filter.locate(task, refuse)
    with pytest.raises(InternalError):
        await world.broker.by_filter.run(task_of(world, MessageAct.DELETE, state="dead"))
    assert await listed(world, topic=b"t.dlq") == [b"a"]


async def test_a_rate_is_kept_and_ends_with_its_client(world, monkeypatch):
    pauses, real = [], asyncio.sleep

    async def sleep(seconds):
        pauses.append(seconds)
        await real(0)

    monkeypatch.setattr(filtering, "asyncio", SimpleNamespace(sleep=sleep))  # acts alone use it
    await numbered(world, 6)
    assert await run(world, MessageAct.DELETE, rate=2) == 6
    assert {pause for pause in pauses if pause} == {1.0}
    await numbered(world, 6)
    assert await world.broker.by_filter.run(task_of(world, MessageAct.DELETE, rate=2), lambda: False) == 2


async def test_what_cannot_be_done_is_refused(world):
    await dead(world, b"a")
    for act, options in (
        (MessageAct.FRONT, {"state": "delayed"}),
        (MessageAct.FRONT, {"state": "dead"}),
        (MessageAct.DUE, {"state": "ready"}),
        (MessageAct.DUE, {"state": "dead"}),
        (MessageAct.DELETE, {"state": "leased"}),
        (MessageAct.REDRIVE, {"state": "delayed"}),
    ):
        with pytest.raises(InvalidOptionError):
            await run(world, act, **options)
    with pytest.raises(UnknownTopicError):
        await run(world, MessageAct.DELETE, b"nothing")
    with pytest.raises(UnknownGroupError):
        await run(world, MessageAct.DELETE, group="nothing")
    await world.broker.admin.pause(b"t.dlq", Side.OUT, None).wait()
    with pytest.raises(PausedError):
        await run(world, MessageAct.REDRIVE, b"t.dlq")


# --- tasks ----------------------------------------------------------------------------------------------------


async def test_a_task_does_it_without_a_client(step, world):
    await numbered(world, 9)
    number = await world.broker.tasks.begin(task_of(world, MessageAct.DELETE, key="odd"))
    task = await ended(world, number)
    assert (task.status, task.count, task.error) == (Status.DONE, 4, "")
    assert await listed(world) == [b"0", b"2", b"4", b"6", b"8"]
    await world.restart()
    assert [each.number for each in world.broker.tasks] == [number]
    assert problems_of(world.store._values) == []


async def test_a_purge_and_a_redrive_are_tasks(world):
    await dead(world, b"a", b"b")
    now_ms = world.clock.now_ms()
    number = await world.broker.tasks.begin(redrive_task(b"t.dlq", 1, None, None, now_ms))
    assert (await ended(world, number)).count == 1
    number = await world.broker.tasks.begin(purge_task(b"t.dlq", None, None, None, now_ms))
    assert (await ended(world, number)).count == 1
    assert await listed(world) == [b"a"]


async def test_a_task_makes_room_on_a_full_disk(world):
    await numbered(world, 6)
    world.broker._engine.journal.admission.set_full(True)
    number = await world.broker.tasks.begin(purge_task(b"t", None, None, None, world.clock.now_ms()))
    assert (await ended(world, number)).count == 6


async def test_a_task_that_fails_says_why(world):
    await dead(world, b"a", b"b")
    await world.broker.admin.change(b"t", {"max_messages": 1}).wait()
    task = await ended(
        world, await world.broker.tasks.begin(redrive_task(b"t.dlq", None, None, None, world.clock.now_ms()))
    )
    assert (task.status, task.count, task.error[:5]) == (Status.FAILED, 1, "LIMIT")


async def test_a_task_is_cancelled_and_looked_at(world):
    await numbered(world, 6)
    number = await world.broker.tasks.begin(task_of(world, MessageAct.DELETE, rate=1))
    await settle_down()
    await world.broker.tasks.cancel(number).wait()
    task = await ended(world, number)
    assert task.status is Status.CANCELLED
    left = await listed(world)
    assert 0 < len(left) < 6
    await world.restart()
    await settle_down()
    assert await listed(world) == left
    with pytest.raises(UnknownTaskError):
        world.broker.tasks.get(number + 1)


async def test_tasks_are_limited_and_old_ones_forgotten(world, monkeypatch):
    monkeypatch.setattr(keeping, "MAX_TASKS", 2)
    await numbered(world, 9)
    slow = await world.broker.tasks.begin(task_of(world, MessageAct.DELETE, rate=0.001))
    done = await world.broker.tasks.begin(task_of(world, MessageAct.DELETE, key="none"))
    await ended(world, done)
    last = await world.broker.tasks.begin(task_of(world, MessageAct.DELETE, rate=0.001))
    assert [task.number for task in world.broker.tasks] == [slow, last]
    with pytest.raises(LimitReachedError):
        await world.broker.tasks.begin(task_of(world, MessageAct.DELETE))
    await world.broker.tasks.cancel(slow).wait()
    world.clock.advance(25 * 3600)
    world.broker.tick()
    assert [task.number for task in world.broker.tasks] == [last]
    await world.restart()
    assert [task.number for task in world.broker.tasks] == [last]


async def killed(world):
    """Start another broker on what the store has, without what was not committed."""
    await world.broker._engine.tasks.stop()
    await world.start()


@pytest.mark.parametrize("end", [World.restart, killed], ids=["restart", "kill"])
@pytest.mark.parametrize("act", [MessageAct.DELETE, MessageAct.FRONT])
@pytest.mark.parametrize("seed", range(6))
async def test_a_task_continues_after_its_broker_and_acts_once_on_each_message(end, act, seed, world, monkeypatch):
    """Restart or kill the broker at any point of a task: each message is settled once, and counted once."""
    monkeypatch.setattr(filtering, "STEP_MESSAGES", 3)
    monkeypatch.setattr(filtering, "STEP_SCAN", 7)
    rng = random.Random(seed)
    await world.broker.admin.create(b"t", {"partitions": 2}).wait()
    for number in range(60):
        await world.broker.publish_with(b"t", b"%d" % number, PublishOptions(key=b"%d" % (number % 3))).commit.wait()
    number = await world.broker.tasks.begin(task_of(world, act, key="1"))
    for _ in range(4):
        for _ in range(rng.randrange(30)):
            await asyncio.sleep(0)
        await end(world)
        assert problems_of(world.store._values) == []
    task = await ended(world, number)
    assert (task.status, task.count) == (Status.DONE, 20)
    chosen = [b"%d" % number for number in range(60) if number % 3 == 1]
    rest = [b"%d" % number for number in range(60) if number % 3 != 1]
    delivered = await world.drain(b"t")
    assert sorted(delivered) == sorted(rest if act is MessageAct.DELETE else chosen + rest)
    assert problems_of(world.store._values) == []


async def test_a_task_is_the_same_after_it_was_stored(world):
    task = task_of(
        world, MessageAct.REDRIVE, key="k", header="a:b", contains="c", older=1.5, reason="r", to="u", limit=5, rate=2
    )
    task.number, task.at_group = 7, b"default"
    assert of_members(7, task.members()).members() == task.members()


def test_a_stored_task_that_makes_no_sense_is_found_before_the_broker_refuses_it():
    pairs = {stored_tasks.task(7): stored_tasks.encode_task({"act": "rain"})}
    assert [problem for problem in problems_of(pairs) if "task 7: the checksum is right, but" in problem]

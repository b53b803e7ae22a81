"""Carries out acts on all messages that a filter selects, in steps.

    step ─▶ a page of the scan ─▶ the act, in turns of the event loop ─▶ commit ─▶ pause, if there is a rate ─▶ step

Steps of all acts take turns, so that only one page is in memory. The position moves with each part of a page that is
settled, in the same commit: an act that is interrupted continues there.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from miniqueue.broker.acts.acts import Acts
from miniqueue.broker.acts.orders import MessageAct
from miniqueue.broker.acts.task import Status, Task
from miniqueue.broker.consume.redrive import check_destination
from miniqueue.broker.delays.delays import DelayedMessages
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.peeked import PeekedMessage, State
from miniqueue.broker.inspect.positions import ScanPosition
from miniqueue.broker.inspect.scan import MAX_BYTES, Scan
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.model.views import group_named
from miniqueue.errors import BrokenOffError, InternalError
from miniqueue.errors.requests import UnknownTopicError

#: Maximum number of messages that one step settles, and reads.
STEP_MESSAGES = 1000
STEP_SCAN = 10_000


class ActsByFilter:
    """Carries out acts, with or without a client that waits.

    Args:
      engine: has the topics and the store.
      scan: selects messages.
      acts: settles them.
      delayed: the messages that were published with a delay.
    """

    def __init__(self, engine: Engine, scan: Scan, acts: Acts, delayed: DelayedMessages) -> None:
        self._engine = engine
        self._journal = engine.journal
        self._scan = scan
        self._acts = acts
        self._delayed = delayed
        self._gate = asyncio.Lock()

    async def run(self, task: Task, is_wanted: Callable[[], bool] = lambda: True, *, is_dry: bool = False) -> int:
        """Carry out an act that is not stored; return the number of messages when it is durable.

        Args:
          task: the act.
          is_wanted: called after each step; if it returns False, the act ends.
          is_dry: whether to count the messages only.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError, RequestError: nothing was done.
          PausedError, LimitReachedError, UnavailableError, StorageError: messages that were settled stay settled. If
            the store failed, BrokenOffError says how many these are.
        """
        try:
            with self._engine.memory.reserve(2 * MAX_BYTES):
                await self._journal.epoch.once(self._run(task, is_wanted, is_dry=is_dry))
        except BrokenOffError as exc:
            outcome = f"at least {task.count} messages were settled"
            raise BrokenOffError(f"the store failed during the act; {outcome}; repeat it for the rest") from exc
        return task.count

    async def _run(self, task: Task, is_wanted: Callable[[], bool], *, is_dry: bool) -> None:
        await self.begin(task)
        while task.status is Status.RUNNING and await self.step(task, lambda: None, is_dry=is_dry):
            if not is_wanted():
                break

    async def locate(self, task: Task, check: Callable[[bytes], None]) -> None:
        """Make an act on the dead letters of a topic one on messages of their own topic; call it before any act begins.

        An act on dead letters of a topic that has none ends at once.

        Args:
          task: the act.
          check: called with the name of the topic of the dead letters; raises an error if the client may not act there.

        Raises InvalidTopicError, UnknownTopicError, UnavailableError, and what `check` raises.
        """
        if task.selection.state is not State.DEAD:
            return
        located = await self._journal.epoch.repeat(partial(self._scan.located, task.topic, task.selection))
        if located is None:
            task.end(Status.DONE, self._engine.clock.now_ms())
            return
        topic, task.selection = located
        task.topic = topic.name
        check(topic.name)

    async def begin(self, task: Task) -> None:
        """Check that an act can be carried out, unless it has ended already; raises as `run` does."""
        if task.status is not Status.RUNNING:
            return
        if task.selection.state is State.DEAD:
            raise InternalError("the dead letters were not located")
        topic = await self._journal.committed_topic(task.topic)
        if task.order.target is not None:
            check_destination(self._engine, task.topic, task.order.target)
        if task.group is not None:
            group_named(topic, task.group)
        assert topic.id is not None  # It exists.
        task.topic_id = topic.id

    async def step(self, task: Task, save: Callable[[], None], *, is_dry: bool = False) -> bool:
        """Carry out a step, and pause if there is a rate; return whether there are more.

        Call it only within an epoch. `save` is called whenever the task has changed, in the same iteration of the event
        loop as what it did.
        """
        async with self._gate:
            settled_count, is_more = await self._step(task, save, is_dry=is_dry)
            if settled_count and not is_dry:
                await self._journal.committer.flush()
        if settled_count and task.order.act is MessageAct.DUE:
            self._delayed.tick()
        if settled_count and is_more and task.per_second and not is_dry:
            await asyncio.sleep(settled_count / task.per_second)
        return is_more

    async def _step(self, task: Task, save: Callable[[], None], *, is_dry: bool) -> tuple[int, bool]:
        """Carry out a step; return the number of messages that were settled, and whether there are more steps."""
        topic = await self._journal.committed_topic(task.topic)
        if topic.id != task.topic_id:
            raise UnknownTopicError
        names = _names(topic, task)
        task.at_group = names[0] if task.at_group is None else task.at_group
        group = topic.groups.get(task.at_group)
        max_count = _max_count(task)
        if group is None or group.id is None or max_count <= 0:
            return 0, self._leave_group(task, names, save)
        page = await self._scan.page(group, task.selection, task.position, max_count=max_count, max_scanned=STEP_SCAN)
        if page is None:  # the group was moved meanwhile
            return 0, True
        is_first, count_before = task.at_group == names[0], task.group_count

        def note(count: int, position: ScanPosition | None) -> None:
            task.group_count += count
            task.position = position or task.position
            save()

        messages = [message for message in page.messages if _is_wanted(task, message, is_first=is_first)]
        if is_dry:
            task.group_count += len(messages)
        elif (outcome := await self._acts.carry_out(group, task.order, messages, task.front, note)).error is not None:
            raise outcome.error
        settled_count = task.group_count - count_before
        task.scanned_count += page.scanned_count
        task.position = page.next
        if page.next is None:
            return settled_count, self._leave_group(task, names, save)
        save()
        return settled_count, True

    def _leave_group(self, task: Task, names: list[bytes], save: Callable[[], None]) -> bool:
        """Leave a group that was read to its end; return whether there is another one, otherwise end the task."""
        following = next((name for name in names if task.at_group is not None and name > task.at_group), None)
        if following is None:
            # The commit of the last effects contains the end: after a crash, the task must not begin again.
            task.end(Status.DONE, self._engine.clock.now_ms())
        else:
            task.enter(following)
        save()
        return following is not None


def _is_wanted(task: Task, message: PeekedMessage, *, is_first: bool) -> bool:
    """Return whether a step acts on a selected message, in the first group or another one.

    Messages that were published with a delay belong to no group: they are acted on in the first one. Messages that have
    their new due time already were moved to a later position, and are read a second time.
    """
    is_moved = task.order.due_at_ms is not None and message.due_at_ms == task.order.due_at_ms
    return (is_first or message.stored.delayed_id is None) and not is_moved


def _max_count(task: Task) -> int:
    """Return how many messages the next step may settle."""
    count = STEP_MESSAGES if task.per_second is None else min(STEP_MESSAGES, max(1, int(task.per_second)))
    return count if task.limit is None else min(count, task.limit - task.group_count)


def _names(topic: Topic, task: Task) -> list[bytes]:
    """Return the names of the groups in which a task acts, in order."""
    if task.group is None and task.order.act is MessageAct.DELETE:
        return sorted(group.name for group in topic.existing_groups)
    return [group_named(topic, task.group).name]

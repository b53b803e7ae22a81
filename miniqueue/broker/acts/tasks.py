"""Keeps the acts on many messages that run without a client that waits, and continues them after a restart.

    begin ─▶ stored, with the next commit ─▶ steps; each commit contains the position ─▶ ended, kept for a day
                                              └ restart, store fault ─▶ continues at the position that was stored

At most `MAX_TASKS` are kept; the oldest one that has ended makes room for a new one.
"""

from collections.abc import Iterator
from functools import partial

import structlog

from miniqueue.broker.acts.by_filter import ActsByFilter
from miniqueue.broker.acts.task import Status, Task, of_members
from miniqueue.broker.commit.journal import Commit
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.shares import Pool
from miniqueue.broker.runtime.accounts import user_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.errors import LimitReachedError, MiniqueueError
from miniqueue.errors.requests import UnknownTaskError
from miniqueue.storage.format import tasks as stored_tasks

log = structlog.get_logger()

#: Maximum number of tasks, those included that have ended.
MAX_TASKS = 100
#: How long a task is shown after its end.
SHOWN_MS = 24 * 3600 * 1000


class ActTasks:
    """The tasks of a broker, by number.

    Args:
      engine: has the store, and runs the tasks.
      by_filter: carries them out.
    """

    def __init__(self, engine: Engine, by_filter: ActsByFilter) -> None:
        self._journal = engine.journal
        self._clock = engine.clock
        self._spawn = engine.spawn
        self._topics = engine.topics
        self._by_filter = by_filter
        self._shares = engine.shares
        self._shares.measure(Pool.TASKS, self._count_of, MAX_TASKS, f"{MAX_TASKS} for all users")
        self._tasks: dict[int, Task] = {}

    def restored(self, content: StoreContent) -> None:
        """Replace the tasks in memory by those of the store, and continue those that run; raises CorruptionError."""
        self._tasks = {number: of_members(number, members) for number, members in content.tasks.items()}
        for task in self._tasks.values():
            self._continue(task)

    def tick(self) -> None:
        """Forget tasks that ended long ago."""
        if not self._journal.admission.may_change:
            return
        latest_ms = self._clock.now_ms() - SHOWN_MS
        for task in [task for task in self._tasks.values() if task.ended_at_ms and task.ended_at_ms < latest_ms]:
            self._forget(task)

    def __iter__(self) -> Iterator[Task]:
        return iter(sorted(self._tasks.values(), key=_number))

    def get(self, number: int) -> Task:
        """Return a task; raises UnknownTaskError."""
        task = self._tasks.get(number)
        if task is None:
            raise UnknownTaskError
        return task

    async def begin(self, task: Task) -> int:
        """Begin a task; return its number when it is durable.

        Raises as `ActsByFilter.begin`, LimitReachedError: too many tasks run, ShareLimitError: too many of the user do,
        or UnavailableError: nothing can be changed now.
        """
        self._journal.admission.check_change()
        await self._journal.epoch.repeat(partial(self._by_filter.begin, task))
        self._make_room(user_of(CURRENT_ACTOR.get()))
        task.number = self._topics.placing.next_number(max(self._clock.now_ms(), max(self._tasks, default=0) + 1))
        task.actor = bytes(CURRENT_ACTOR.get())
        self._tasks[task.number] = task
        commit = self._committed(task)
        self._continue(task)
        await commit.wait()
        return task.number

    def cancel(self, number: int) -> Commit:
        """End a task after its current step; return the commit that makes that durable. It may have ended already.

        Raises UnknownTaskError, or UnavailableError: nothing can be changed now.
        """
        self._journal.admission.check_change()
        task = self.get(number)
        task.end(Status.CANCELLED, self._clock.now_ms())
        return self._committed(task)

    def _make_room(self, user: str) -> None:
        self._shares.admit(Pool.TASKS, user)
        if len(self._tasks) >= MAX_TASKS:
            ended = [task for task in self._tasks.values() if task.ended_at_ms]
            if not ended:
                raise LimitReachedError(f"{MAX_TASKS} tasks are running; wait for one, or cancel one")
            self._forget(min(ended, key=_number))

    def _count_of(self, user: str | None) -> int:
        """Return how many tasks of a user, with None of all users, run."""
        running = [task for task in self._tasks.values() if not task.ended_at_ms]
        return len(running) if user is None else sum(task.user == user for task in running)

    def _forget(self, task: Task) -> None:
        del self._tasks[task.number]
        self._journal.change({stored_tasks.task(task.number): None})
        self._journal.committer.request_soon()

    def _committed(self, task: Task) -> Commit:
        """Store a task; return the commit, which begins now."""
        self._save(task)
        self._journal.committer.request()
        return self._journal.committer.open

    def _save(self, task: Task) -> None:
        """Store a task with the next commit."""
        if self._tasks.get(task.number) is task:
            self._journal.change({stored_tasks.task(task.number): stored_tasks.encode_task(task.members())})
            self._journal.committer.request_soon()

    def _continue(self, task: Task) -> None:
        if task.status is Status.RUNNING:
            self._spawn(self._run(task))

    async def _run(self, task: Task) -> None:
        CURRENT_ACTOR.set(task.actor)
        save = partial(self._save, task)
        try:
            while task.status is Status.RUNNING and await self._by_filter.step(task, save):
                pass
        except MiniqueueError as exc:
            if not self._journal.admission.may_change:
                return  # The broker stops, or the store is reopened: then `restored` continues the task.
            task.end(Status.FAILED, self._clock.now_ms(), f"{exc.code} {exc}")
            self._save(task)
        log.info("a task has ended", task=task.number, topic=task.topic, status=task.status, error=task.error)


def _number(task: Task) -> int:
    return task.number

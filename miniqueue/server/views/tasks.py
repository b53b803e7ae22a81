"""Tasks as both protocols show them, to users who have the right on their topics.

{id 1700000000000, topic orders, act delete, status running, count 5000, scanned 20000, …}
"""

from miniqueue.access.rights import Right
from miniqueue.access.users import User, is_permitted
from miniqueue.broker.acts.task import Task
from miniqueue.broker.acts.tasks import ActTasks
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import UnknownTaskError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.server.views.wholes import ids_of_tasks


def tasks_of(tasks: ActTasks, user: User | None) -> list[Task]:
    """Return the tasks that a user may inspect."""
    return [task for task in tasks if is_permitted(user, Right.MONITOR, task.topic)]


def task_named(tasks: ActTasks, user: User | None, right: Right, word: bytes) -> Task:
    """Return the task with an id, if the user has a right on its topic.

    Raises InvalidOptionError, or UnknownTaskError, which does not tell whether the task exists.
    """
    numbers = [_parse_id(each) for each in ids_of_tasks(word)]
    if len(numbers) > 1:  # the tasks of a spread topic, which only shards have
        raise UnknownTaskError
    task = tasks.get(numbers[0])
    if not is_permitted(user, right, task.topic):
        raise UnknownTaskError
    return task


def shown_task(task: Task) -> dict[str, bytes | str | int | float | None]:
    """Return the fields of a task; None if it has no such value."""
    return {
        "id": str(task.number),
        "topic": whole_of(task.topic),
        "act": task.order.act.value,
        "status": task.status.value,
        "count": task.count,
        "scanned": task.scanned_count,
        "limit": task.limit,
        "rate": task.per_second,
        "begun_at_ms": task.selection.now_ms,
        "ended_at_ms": task.ended_at_ms or None,
        "error": task.error or None,
    }


def _parse_id(word: bytes) -> int:
    """Return the number of a task; raises InvalidOptionError."""
    if not word.isdigit() or len(word) > 18:
        raise InvalidOptionError("the id of a task is a whole number")
    return int(word)

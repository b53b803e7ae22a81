"""Acts on many messages, which can last for hours if they have a rate.

in a pipe       one call, which lasts as long as the act
on a terminal   a task of the broker ─▶ a bar that shows how far it is; Ctrl-C ends the task after its current step

A purge is one call in both cases; for its bar, the messages that still wait are counted.
"""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from miniqueue.commands.shell.connecting import BrokerClient
from miniqueue.commands.shell.progress import progress
from miniqueue.commands.shell.texts import counted
from miniqueue.errors import ClientError, ServerError
from miniqueue.server.process.escaping import escape
from miniqueue_client import Selection, Task
from miniqueue_client.calls.chosen import Act

_POLL_SECONDS: Final = 0.2


def act_on(
    client: BrokerClient,
    title: str,
    act: Act,
    topic: str,
    selection: Selection,
    limit: int | None = None,
    **order: Any,  # noqa: ANN401 - as `Client.act_on`
) -> int:
    """Act on messages, and return how many; raises ClientError.

    Args:
      client: a client of the broker.
      title: what is done, such as `redriving`.
      act: the act.
      topic: the topic.
      selection: the messages.
      limit: maximum number of messages.
      order: the other arguments of `Client.act_on`.
    """
    if not sys.stderr.isatty():
        return client.act_on(act, topic, selection, limit=limit, **order)
    task_id = client.begin_task(act, topic, selection, limit=limit, **order)
    with progress(title, limit) as advance:
        try:
            task = _watched(client, task_id, advance)
        except KeyboardInterrupt:
            with suppress(ClientError):
                client.cancel_task(task_id)
            raise
    if task.status == "failed":
        done = f"after {counted(task.count, 'message')}"
        raise ServerError(f"the broker refused {done}: {escape(task.error)}", code=task.error.partition(" ")[0])
    return task.count


def purge(
    client: BrokerClient,
    topic: str,
    *,
    state: str | None = None,
    older_than_seconds: float | None = None,
    group: str | None = None,
) -> int:
    """Remove waiting messages, and return how many; the arguments are those of `Client.purge`. Raises ClientError."""
    options: dict[str, Any] = {"state": state, "older_than_seconds": older_than_seconds, "group": group}
    if not sys.stderr.isatty():
        return client.purge(topic, **options)
    first, has_ended = _waiting(client, topic, state, group), threading.Event()

    def watch(advance: Callable[[int], None]) -> None:
        count = 0
        while not has_ended.wait(_POLL_SECONDS):
            with suppress(ClientError):  # the purge itself reports it
                removed = max(count, first - _waiting(client, topic, state, group))
                advance(removed - count)
                count = removed

    with progress("purging", first if older_than_seconds is None else None) as advance:
        watching = threading.Thread(target=watch, args=(advance,))
        watching.start()
        try:
            return client.purge(topic, **options)
        finally:
            has_ended.set()
            watching.join()


def _waiting(client: BrokerClient, topic: str, state: str | None, group: str | None) -> int:
    """Return the number of messages that wait for a group, or the sum of all: a purge empties one after the other."""
    groups = [each for each in client.groups(topic) if group in (None, each.name)]
    ready = 0 if state == "delayed" else sum(each.ready for each in groups)
    return ready + (0 if state == "ready" else sum(each.delayed for each in groups))


def _watched(client: BrokerClient, task_id: str, advance: Callable[[int], None]) -> Task:
    """Return a task when it has ended; call `advance` with the numbers of messages on which it acts meanwhile."""
    count = 0
    while True:
        task = client.find_task(task_id)
        advance(task.count - count)
        count = task.count
        if task.status != "running":
            return task
        time.sleep(_POLL_SECONDS)

"""Calls about messages that are chosen by conditions; see `messages`."""

from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from miniqueue_client.calls import answers
from miniqueue_client.calls.call import Call, Reply, Seconds, Word, options, seconds_word, time_word
from miniqueue_client.calls.messages import Payload
from miniqueue_client.calls.values import Found, Task

#: What can be done with messages.
Act: TypeAlias = Literal["delete", "front", "redrive", "due"]


class Selection(NamedTuple):
    """The waiting messages of a topic that meet all these conditions; None: no condition.

    Attributes:
      state: `ready`, `delayed`, or `dead`: the dead letters of the topic, wherever they are; None: ready or delayed.
      key: their key; "": they have none.
      header: the name and the value of one of their headers.
      contains: a part of their payloads.
      older_than_seconds: their minimum age.
      reason: why they became dead letters.
      group: the group that the state refers to; None: the default group.
    """

    state: str | None = None
    key: Payload | None = None
    header: tuple[str, Payload] | None = None
    contains: Payload | None = None
    older_than_seconds: Seconds | None = None
    reason: str | None = None
    group: str | None = None

    def words(self) -> tuple[Word, ...]:
        """Return the words of the conditions."""
        older = seconds_word(self.older_than_seconds)
        words = options(state=self.state, key=self.key, contains=self.contains, older=older, reason=self.reason)
        header = () if self.header is None else ("HEADER", *self.header)
        return *words, *header, *options(group=self.group)


def search(
    topic: str,
    selection: Selection,
    *,
    count: int | None = None,
    scan: int | None = None,
    after: str | None = None,
) -> Call[Found]:
    """Return the messages of a topic that a selection names, without leasing them.

    Args:
      topic: the topic, which must exist.
      selection: the messages.
      count: maximum number of messages; at most 1,000, by default 10.
      scan: maximum number of messages to read; at most 100,000, by default 10,000.
      after: `Found.next` of the previous page.

    Returns: a page; it can be empty before the end, which is where `next` is None.
    """
    words = options(count=count, scan=scan, after=after)
    return Call(("SEARCH", topic, *selection.words(), *words), partial(_found, topic))


def _found(topic: str, reply: Reply) -> Found:
    following = reply[b"next"]
    messages = tuple(answers.seen(topic, reply[b"messages"]))
    return Found(messages, None if following is None else answers.text(following), reply[b"scanned"])


def delete_message(topic: str, message_id: str, *, group: str | None = None) -> Call[str]:
    """Delete a waiting message from all groups, or from one; a delayed message as `cancel` does. Returns its id.

    Refused with `NOMESSAGE` if it does not exist, and with `BADSTATE` if it is leased.
    """
    return _act("DELETE", topic, message_id, options(group=group))


def move_to_front(topic: str, message_id: str, *, group: str | None = None) -> Call[str]:
    """Move a waiting message to the front of a group; see `delete_message`."""
    return _act("FRONT", topic, message_id, options(group=group))


def redrive_message(topic: str, message_id: str, *, to: str | None = None, group: str | None = None) -> Call[str]:
    """Move a dead letter back to its topic, or a message to the topic `to`; see `delete_message`."""
    return _act("REDRIVE", topic, message_id, options(to=to, group=group))


def reschedule(
    topic: str,
    message_id: str,
    *,
    at: datetime | None = None,
    delay_seconds: Seconds | None = None,
    group: str | None = None,
) -> Call[str]:
    """Make a delayed message due now, or at another time; see `delete_message`.

    Args:
      topic: the topic.
      message_id: the id of the message.
      at: the time; without a time zone it is local time.
      delay_seconds: the time from now on, instead.
      group: the group that has delayed it, if it was delayed by `dack`; None: the default group.

    Returns: the id of the message, which contains the time if it was published with a delay.
    """
    words = options(at=time_word(at), delay=seconds_word(delay_seconds), group=group)
    return _act("DUE", topic, message_id, words)


def _act(act: str, topic: str, message_id: str, words: tuple[Word, ...]) -> Call[str]:
    return Call(("MESSAGE", act, topic, message_id, *words), answers.text, is_repeatable=False)


def act_on(  # noqa: PLR0913 - one keyword for each option of an act
    act: Act,
    topic: str,
    selection: Selection,
    *,
    dry_run: bool = False,
    limit: int | None = None,
    per_second: float | None = None,
    to: str | None = None,
    at: datetime | None = None,
    delay_seconds: Seconds | None = None,
) -> Call[int]:
    """Delete, move to the front, redrive, or make due all messages that a selection names; return how many.

    Args:
      act: `delete`, `front`, `redrive`, or `due`, see `delete_message`, `move_to_front`, and so on.
      topic: the topic.
      selection: the messages; `Selection()` names all on which the act makes sense.
      dry_run: whether to count the messages only.
      limit: maximum number of messages.
      per_second: maximum rate: the call lasts as long as that takes.
      to: the topic to move all messages to, for `redrive`.
      at: the new due time, for `due`; without a time zone it is local time.
      delay_seconds: the time from now on, instead, for `due`.
    """
    words = _order_words(act, topic, selection, limit, per_second, (to, at, delay_seconds))
    return Call((*words, *(("DRYRUN",) if dry_run else ())), answers.number, False, float("inf"))


def begin_task(  # noqa: PLR0913 - one keyword for each option of an act
    act: Act,
    topic: str,
    selection: Selection,
    *,
    limit: int | None = None,
    per_second: float | None = None,
    to: str | None = None,
    at: datetime | None = None,
    delay_seconds: Seconds | None = None,
) -> Call[str]:
    """Begin what `act_on` does as a task, which continues after a restart of the broker; return its id."""
    words = _order_words(act, topic, selection, limit, per_second, (to, at, delay_seconds))
    return Call((*words, "TASK"), answers.text, is_repeatable=False)


def _order_words(
    act: Act,
    topic: str,
    selection: Selection,
    limit: int | None,
    per_second: float | None,
    target: tuple[str | None, datetime | None, Seconds | None],
) -> tuple[Word, ...]:
    """Return the words of an act on many messages; `target` is where or when they go."""
    to, at, delay_seconds = target
    words = options(
        to=to, at=time_word(at), delay=seconds_word(delay_seconds), limit=limit, rate=seconds_word(per_second)
    )
    return "MESSAGES", act.upper(), topic, *selection.words(), *words


def tasks() -> Call[list[Task]]:
    """List the tasks, those included that ended within a day."""
    return Call(("TASK", "LIST"), _tasks)


def find_task(task_id: str) -> Call[Task]:
    """Return a task; refused with `NOTASK` if it does not exist."""
    return Call(("TASK", "GET", task_id), _task)


def cancel_task(task_id: str) -> Call[None]:
    """End a task after its current step, if it runs; what it has done stays done."""
    return Call(("TASK", "CANCEL", task_id), answers.nothing)


def _tasks(reply: Reply) -> list[Task]:
    return [_task(item) for item in reply]


def _task(reply: Reply) -> Task:
    rate, error = reply[b"rate"], reply[b"error"]
    return Task(
        id=answers.text(reply[b"id"]),
        topic=answers.text(reply[b"topic"]),
        act=answers.text(reply[b"act"]),
        status=answers.text(reply[b"status"]),
        count=reply[b"count"],
        scanned=reply[b"scanned"],
        limit=reply[b"limit"],
        per_second=None if rate is None else float(rate),
        begun_at_ms=reply[b"begun_at_ms"],
        ended_at_ms=reply[b"ended_at_ms"],
        error="" if error is None else answers.text(error),
    )

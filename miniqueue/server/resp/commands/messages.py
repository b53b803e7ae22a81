"""SEARCH, MESSAGE, MESSAGES, and TASK: find messages of a topic, and act on one, or on all that a filter selects.

    SEARCH orders KEY acme HEADER tenant eu CONTAINS "id":17 COUNT 10 SCAN 50000
      ─▶ {messages [[0-17, payload, {state ready …}], …], next 0-3-4711, scanned 50000}
    SEARCH orders … AFTER 0-3-4711  ─▶ {messages …, next nil, scanned 8000}: there are no more

    MESSAGE DELETE orders 0-17        MESSAGE FRONT orders 0-17        MESSAGE REDRIVE orders.dlq 0-17 [TO orders]
    MESSAGE DUE orders 0-1700000060000-3 [AT ms | DELAY seconds]  ─▶ its id, which DUE can change
    MESSAGES DELETE orders KEY acme OLDER 3600 DRYRUN  ─▶ how many it would be
    MESSAGES DELETE orders KEY acme OLDER 3600 LIMIT 1000 RATE 50  ─▶ how many were deleted
    MESSAGES DELETE orders KEY acme OLDER 3600 TASK  ─▶ the id of the task that does it

    TASK GET 1700000000000 ─▶ {id, topic, act, status running, count 5000, scanned 20000, …}
    TASK LIST ─▶ those of topics that the user may inspect        TASK CANCEL 1700000000000 ─▶ OK

`core.options.filter` defines the conditions, `broker.inspect.scan` the order and the positions.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from miniqueue.access.rights import Right
from miniqueue.access.users import check_target
from miniqueue.broker.acts.orders import OPTIONS, MessageAct, parse_order
from miniqueue.broker.acts.requests import parse_task
from miniqueue.broker.acts.task import Task
from miniqueue.broker.inspect.peek import DEFAULT_COUNT
from miniqueue.broker.inspect.peeked import State, parse_count, parse_state
from miniqueue.broker.inspect.positions import DEFAULT_SCAN, parse_scan, parse_scan_position
from miniqueue.core.message.ids import parse_any_id
from miniqueue.core.options.filter import parse_filter
from miniqueue.server.resp.commands.context import Client, Presence, answer_later, begin_task, locate
from miniqueue.server.views.messages import resp_messages
from miniqueue.server.views.tasks import shown_task, task_named, tasks_of
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import check_arity, options_of, unknown_subcommand, without_flag
from miniqueue.wire.resp_parser import Command

#: Words of MESSAGE, and of MESSAGES, before their options.
_WORDS: Final = 4
_LEAST_WORDS: Final = 3
#: The options that select messages.
_SELECTING = (b"STATE", b"KEY", b"HEADER", b"CONTAINS", b"OLDER", b"REASON", b"GROUP")


def search(client: Client, command: Command) -> bytes:
    """Carry out SEARCH."""
    return answer_later(client, _search(client, command[1], _words_of(command, 2, (b"COUNT", b"SCAN", b"AFTER"))))


async def _search(client: Client, topic: bytes, words: "_Words") -> bytes:
    protocol, options = client.session.protocol, words.options
    page = await client.broker.inspect.search(
        topic,
        parse_filter(options, words.header),
        state=_state(options),
        count=parse_count(options["count"]) if "count" in options else DEFAULT_COUNT,
        max_scanned=parse_scan(options["scan"]) if "scan" in options else DEFAULT_SCAN,
        after=parse_scan_position(options["after"]) if "after" in options else None,
        group=options.get("group"),
    )
    pairs = [
        (replies.encode("messages", protocol), await resp_messages(client.broker, page.messages, protocol)),
        (replies.encode("next", protocol), replies.encode(page.next and bytes(page.next), protocol)),
        (replies.encode("scanned", protocol), replies.integer(page.scanned_count)),
    ]
    return replies.map_of(pairs, protocol)


def message(client: Client, command: Command) -> bytes:
    """Carry out MESSAGE."""
    act = _act_of(command)
    check_arity(len(command) >= _WORDS, -_WORDS)
    options = _named(options_of(command, _WORDS, tuple(name.upper().encode() for name in (*OPTIONS[act], "group"))))
    check_target(client.user, options.get("to"))
    message_id = parse_any_id(command[3])

    async def reply() -> bytes:
        order = parse_order(act, options, client.broker.clock.now_ms())
        return replies.bulk(await client.broker.by_id.act(command[2], message_id, order, options.get("group")))

    return answer_later(client, reply())


def messages(client: Client, command: Command) -> bytes:
    """Carry out MESSAGES."""
    act = _act_of(command)
    check_arity(len(command) >= _LEAST_WORDS, -_LEAST_WORDS)
    names = tuple(name.upper().encode() for name in (*OPTIONS[act], "limit", "rate"))
    options, header, flag = _words_of(command, _LEAST_WORDS, names, b"DRYRUN", b"TASK")
    check_target(client.user, options.get("to"))
    task = parse_task(act, command[2], options, client.broker.clock.now_ms(), header)
    if flag == b"TASK":
        return answer_later(client, begin_task(client, task))
    presence = Presence()

    async def reply() -> bytes:
        await locate(client, task)
        is_dry = flag == b"DRYRUN"
        return replies.integer(await client.broker.by_filter.run(task, lambda: presence.is_waiting, is_dry=is_dry))

    return answer_later(client, reply(), presence if task.per_second else None)


def _act_of(command: Command) -> MessageAct:
    try:
        return MessageAct(command[1].decode("utf-8", "replace").lower())
    except ValueError as exc:
        raise unknown_subcommand(command) from exc


def _state(options: Mapping[str, bytes]) -> State | None:
    return parse_state(options["state"]) if "state" in options else None


class _Words(NamedTuple):
    """The words of a command after the topic.

    Attributes:
      options: the options, by their names in lower case.
      header: the name and the value of HEADER; None if it is missing, or has no value.
      flag: the last word, if it is a flag; else b"".
    """

    options: dict[str, bytes]
    header: tuple[bytes, bytes] | None
    flag: bytes


def _words_of(command: Command, start: int, names: tuple[bytes, ...], *flags: bytes) -> _Words:
    """Return the words from `start` on: conditions, options with these names, and one of `flags`."""
    words, index = command[:start], start
    header: tuple[bytes, bytes] | None = None
    while index < len(command):
        is_header = command[index].upper() == b"HEADER" and index + 2 < len(command)
        if is_header:
            header = command[index + 1], command[index + 2]
        # So all options are pairs; that HEADER is there twice is found as for any other.
        words += command[index : index + 2]
        index += 3 if is_header else 2
    words, flag = without_flag(words, start, *flags)
    return _Words(_named(options_of(words, start, (*_SELECTING, *names))), header, flag)


def _named(options: Mapping[bytes, bytes]) -> dict[str, bytes]:
    return {name.decode().lower(): value for name, value in options.items()}


# --- TASK ------------------------------------------------------------------------------------------------------


def task(client: Client, command: Command) -> bytes:
    """Carry out TASK."""
    act = TASK_SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return act(client, command)


def _list_tasks(client: Client, command: Command) -> bytes:
    check_arity(len(command) == 2, 2)
    listed = tasks_of(client.broker.tasks, client.user)
    return replies.array([_encode(each, client.session.protocol) for each in listed])


def _get_task(client: Client, command: Command) -> bytes:
    check_arity(len(command) == 3, 3)
    task = task_named(client.broker.tasks, client.user, Right.MONITOR, command[2])
    return _encode(task, client.session.protocol)


def _cancel_task(client: Client, command: Command) -> bytes:
    check_arity(len(command) == 3, 3)
    tasks = client.broker.tasks
    client.wait_for(tasks.cancel(task_named(tasks, client.user, Right.ADMIN, command[2]).number), replies.OK)
    return b""


def _encode(task: Task, protocol: int) -> bytes:
    return replies.encode(dict(shown_task(task).items()), protocol)


#: Subcommands of TASK, by name in capitals.
TASK_SUBCOMMANDS: Mapping[bytes, Callable[[Client, Command], bytes]] = MappingProxyType(
    {b"LIST": _list_tasks, b"GET": _get_task, b"CANCEL": _cancel_task}
)

"""An act on all messages that a filter selects, and how far it has come.

    RUNNING ─▶ steps ─▶ DONE │ FAILED, with the error │ CANCELLED

A long act is stored with its position, in the commits that contain what it does: so it continues after a restart, and
each message is settled once. An act for which its client waits is not stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from miniqueue.broker.acts.acts import Front
from miniqueue.broker.acts.orders import MessageAct, Order
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.inspect.positions import ScanPosition, parse_scan_position
from miniqueue.broker.inspect.scan import Selection, check_state
from miniqueue.core.options import filter as filters
from miniqueue.errors import CorruptionError, MiniqueueError
from miniqueue.errors.requests import InvalidOptionError

#: The states of the messages on which an act makes sense; if the client names none, DELETE acts on those that are ready
#: or delayed, and each other act on those in its first state.
_STATES: Mapping[MessageAct, tuple[State, ...]] = {
    MessageAct.DELETE: (State.READY, State.DELAYED, State.DEAD),
    MessageAct.FRONT: (State.READY,),
    MessageAct.REDRIVE: (State.READY, State.DEAD),
    MessageAct.DUE: (State.DELAYED,),
}


class Status(StrEnum):
    """What has become of an act."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Task:
    """An act on many messages.

    Attributes:
      topic: the name of the topic; `topic_id`: its id, 0 until the act begins.
      order: the act.
      selection: the messages, none of which was published after the act began.
      group: the group in which they wait; None: for DELETE all groups, else the default group.
      limit: maximum number of messages to settle; None: all.
      per_second: maximum rate; None: unlimited.
      number: its number if it is stored, else 0.
      actor: the client that began it.
      status, error: what has become of it.
      ended_at_ms: when it ended; 0 while it runs.
      scanned_count: number of messages that were read.
      at_group, position: the group that is being read, and the position in it; None: the beginning.
      group_count: number of messages settled in that group.
      most_count: the largest number settled in one of the groups before it.
      front: the orders of messages that were moved to the front.
    """

    topic: bytes
    order: Order
    selection: Selection
    group: bytes | None = None
    limit: int | None = None
    per_second: float | None = None
    number: int = 0
    actor: bytes = b""
    topic_id: int = 0
    status: Status = Status.RUNNING
    error: str = ""
    ended_at_ms: int = 0
    scanned_count: int = 0
    at_group: bytes | None = None
    position: ScanPosition | None = None
    group_count: int = 0
    most_count: int = 0
    front: Front = field(default_factory=Front)

    @property
    def user(self) -> str:
        """The name of the user that began it; empty if there were no users."""
        return self.actor.decode("utf-8", "replace").partition(" user ")[2]

    @property
    def count(self) -> int:
        """The number of messages that were settled, or, of several groups, the largest number of one group."""
        return max(self.group_count, self.most_count)

    def enter(self, group: bytes) -> None:
        """Continue with the next group."""
        self.most_count, self.group_count, self.position, self.at_group = self.count, 0, None, group

    def end(self, status: Status, now_ms: int, error: str = "") -> None:
        """Record the end, unless the task has ended before."""
        if self.status is Status.RUNNING:
            self.status, self.error, self.ended_at_ms = status, error, now_ms

    def members(self) -> dict[str, Any]:
        """Return the task for JSON; names are hexadecimal."""
        order, selection = self.order, self.selection
        return {
            **{"topic": self.topic.hex(), "topic_id": self.topic_id, "act": order.act, "due": order.due_at_ms},
            **{"target": _hex(order.target), "state": selection.state, "filter": selection.filter.members()},
            **{"begun": selection.now_ms, "group": _hex(self.group), "limit": self.limit, "rate": self.per_second},
            **{"actor": self.actor.hex(), "status": self.status, "error": self.error, "ended": self.ended_at_ms},
            **{"scanned": self.scanned_count, "at": _hex(self.at_group)},
            **{"position": None if self.position is None else bytes(self.position).decode()},
            **{"count": self.group_count, "most": self.most_count},
            **{"owner": self.front.owner, "front": str(self.front.order)},
        }


def of_members(number: int, members: Mapping[str, Any]) -> Task:
    """Return the task with a number and these `members`; raises CorruptionError."""
    try:
        return _of_members(number, members)
    except (KeyError, TypeError, ValueError, AttributeError, MiniqueueError) as exc:
        raise CorruptionError(f"task {number}: the checksum is right, but the content makes no sense") from exc


def _of_members(number: int, members: Mapping[str, Any]) -> Task:
    order = Order(MessageAct(members["act"]), members["due"], _bytes(members["target"]))
    state, position, owner = members["state"], members["position"], members["owner"]
    chosen = filters.of_members(members["filter"])
    return Task(
        bytes.fromhex(members["topic"]),
        order,
        Selection(None if state is None else State(state), chosen, members["begun"], members["begun"]),
        _bytes(members["group"]),
        members["limit"],
        members["rate"],
        number,
        bytes.fromhex(members["actor"]),
        members["topic_id"],
        Status(members["status"]),
        members["error"],
        members["ended"],
        members["scanned"],
        _bytes(members["at"]),
        None if position is None else parse_scan_position(position.encode()),
        members["count"],
        members["most"],
        Front(None if owner is None else (owner[0], owner[1]), int(members["front"])),
    )


def selection_of(act: MessageAct, state: State | None, chosen: filters.Filter, now_ms: int) -> Selection:
    """Return the messages on which an act makes sense, of those that a client selects; raises InvalidOptionError."""
    states = _STATES[act]
    if check_state(state) not in (None, *states):
        raise InvalidOptionError(f"{act} acts on messages that are {' or '.join(states)}")
    usual = None if act is MessageAct.DELETE else states[0]
    return Selection(state or usual, chosen, now_ms, now_ms)


def _hex(name: bytes | None) -> str | None:
    return None if name is None else name.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)

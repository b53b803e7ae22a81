"""The states of a RESP connection, and the table of what changes them.

The state of a connection has four independent parts. `life` decides which bytes are read and which commands are
carried out; the transitions are in `TRANSITIONS`, and from each life a connection that is cut or lost is GONE:

    life         bytes that come           left when
    OPEN         commands                  the client closes its half: HALF_CLOSED; QUIT, idle, revoked user: CLOSING;
                                           drain while held: DRAINING; invalid bytes: REFUSED
    HALF_CLOSED  none; the rest is         all is carried out, or QUIT: CLOSING; invalid bytes: REFUSED
                 carried out
    DRAINING     dropped                   the command that holds the connection is answered: CLOSING
    CLOSING      dropped                   the last reply is sent: GONE
    REFUSED      dropped, counted          the error is sent and our half closed: LINGERING; over TLS: GONE
    LINGERING    dropped, counted          the client closes, 16 MiB, or 2 s: GONE
    GONE         none                      -

    hold         None, or the command that is being answered elsewhere; nothing is carried out meanwhile
    turn         None; DUE: queued for a turn of the event loop; HAD: has had a turn since the last read
    is_slow      the transport's buffer is full: nothing is carried out
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType

from miniqueue.server.resp.commands.context import Waiting


class Life(IntEnum):
    """What is left of a connection, in the order in which it ends; from CLOSING on, no command is carried out."""

    OPEN = 0
    HALF_CLOSED = 1
    DRAINING = 2
    CLOSING = 3
    REFUSED = 4
    LINGERING = 5
    GONE = 6


OPEN, HALF_CLOSED, DRAINING, CLOSING, REFUSED, LINGERING, GONE = Life


class Event(Enum):
    """What changes the life of a connection."""

    END_OF_CLIENT = "the client sends no more"
    DRAIN = "the broker stops while a command holds the connection"
    CLOSE = "nothing more is to be carried out"
    INVALID_BYTES = "what was sent makes no sense"
    ALL_SENT = "no reply is left to send"
    LINGERED = "the client has sent enough, or for long enough, after its error"


#: An event that is missing changes nothing.
TRANSITIONS: Mapping[Life, Mapping[Event, Life]] = MappingProxyType(
    {
        OPEN: {
            Event.END_OF_CLIENT: HALF_CLOSED,
            Event.DRAIN: DRAINING,
            Event.CLOSE: CLOSING,
            Event.INVALID_BYTES: REFUSED,
        },
        HALF_CLOSED: {Event.DRAIN: DRAINING, Event.CLOSE: CLOSING, Event.INVALID_BYTES: REFUSED},
        DRAINING: {Event.CLOSE: CLOSING},
        CLOSING: {Event.ALL_SENT: GONE},
        REFUSED: {Event.ALL_SENT: LINGERING, Event.LINGERED: GONE},
        LINGERING: {Event.CLOSE: GONE, Event.LINGERED: GONE},
        GONE: {},
    }
)


class Hold:
    """A command that is being answered elsewhere.

    Attributes:
      waiting: the command, if it can wait for a long time; it is notified when the client leaves.
      room_bytes: how much more is read meanwhile: to notice that the client leaves, and because the kernel discards
        what it has when a reply to a client that has left is answered by a reset. Negative: nothing is read.
      is_for_room: whether a publish waits for room; it is dropped if the connection breaks.
    """

    __slots__ = ("is_for_room", "room_bytes", "waiting")

    def __init__(self, waiting: Waiting | None, room_bytes: int, *, is_for_room: bool = False) -> None:
        self.waiting = waiting
        self.room_bytes = room_bytes
        self.is_for_room = is_for_room


class Turn(Enum):
    """The place of a connection among those that have many commands, and take turns."""

    DUE = "due"
    HAD = "had"


DUE, HAD = Turn

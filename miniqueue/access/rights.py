"""The one table of rights: every RESP command and every HTTP route, with what it takes.

    PUBLISH orders.eu x  ──▶  Needs(Right.PUBLISH, topic_at=1)  ──▶  has the user a role with that right
                                                                     whose patterns fit orders.eu?

    right      publisher  subscriber  monitor  admin
    PUBLISH        x                             x
    CONSUME                   x                  x
    MONITOR                              x       x
    ADMIN                                        x

What has no topic concerns the broker as a whole and takes the right on `*`. `KNOWN` is for every user, `OPEN` for
everybody. Words of a stream need no entry of their own: the right was checked when the stream began, and a stream
whose user changes is ended.

Knows names only; the protocols look up here what they carry out there, and tests compare the two.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from miniqueue.core.redis_channels import is_redis_channel


class Right(Enum):
    """What somebody may do."""

    OPEN = "open"
    KNOWN = "known"
    PUBLISH = "publish"
    CONSUME = "consume"
    MONITOR = "monitor"
    ADMIN = "admin"


class Needs(NamedTuple):
    """What a command or a route takes.

    Attributes:
      right: the right.
      topic_at: which word of the command names the topic, the command being word 0; of a route, any number: its path
        ends with the topic, or begins `/topics/{topic}`. None when it concerns the broker as a whole.
    """

    right: Right
    topic_at: int | None = None


#: The rights of each role, on the topics that the role is given for.
ROLES: Mapping[str, frozenset[Right]] = MappingProxyType(
    {
        "publisher": frozenset({Right.PUBLISH}),
        "subscriber": frozenset({Right.CONSUME}),
        "monitor": frozenset({Right.MONITOR}),
        "admin": frozenset({Right.PUBLISH, Right.CONSUME, Right.MONITOR, Right.ADMIN}),
    }
)

#: By name in capitals. A name of two words is that of a subcommand, and goes before that of its command.
COMMANDS: Mapping[bytes, Needs] = MappingProxyType(
    {
        b"AUTH": Needs(Right.OPEN),
        b"HELLO": Needs(Right.OPEN),
        b"PING": Needs(Right.OPEN),
        b"QUIT": Needs(Right.OPEN),
        b"RESET": Needs(Right.OPEN),
        b"MULTI": Needs(Right.OPEN),  # what is sent before AUTH is refused with the rest of its transaction, too
        b"EXEC": Needs(Right.KNOWN),
        b"DISCARD": Needs(Right.KNOWN),
        b"WATCH": Needs(Right.KNOWN),
        b"UNWATCH": Needs(Right.KNOWN),
        b"PUBLISH": Needs(Right.PUBLISH, 1),
        b"PUB": Needs(Right.PUBLISH, 1),
        b"MPUBLISH": Needs(Right.PUBLISH, 1),
        b"PUBBATCH": Needs(Right.PUBLISH, 1),
        b"PUBEACH": Needs(Right.PUBLISH, 1),
        b"PUBPACKED": Needs(Right.PUBLISH, 1),
        b"REQUEST": Needs(Right.PUBLISH, 1),
        b"REPLY": Needs(Right.CONSUME, 1),
        b"SUBSCRIBE": Needs(Right.CONSUME, 1),
        b"SUB": Needs(Right.CONSUME, 1),
        b"PSUBSCRIBE": Needs(Right.KNOWN),  # channels of Redis, which carry nothing
        b"UNSUBSCRIBE": Needs(Right.KNOWN),
        b"PUNSUBSCRIBE": Needs(Right.KNOWN),
        b"GET": Needs(Right.CONSUME, 1),
        b"RECEIVE": Needs(Right.CONSUME, 1),
        b"ACK": Needs(Right.CONSUME, 1),
        b"NACK": Needs(Right.CONSUME, 1),
        b"BACK": Needs(Right.CONSUME, 1),
        b"DACK": Needs(Right.CONSUME, 1),
        b"REJECT": Needs(Right.CONSUME, 1),
        b"EXTEND": Needs(Right.CONSUME, 1),
        b"TOPICS": Needs(Right.KNOWN),  # the names that the user has a role for
        b"TOPIC": Needs(Right.ADMIN),
        b"REDRIVE": Needs(Right.ADMIN, 1),
        b"TOPIC CREATE": Needs(Right.ADMIN, 2),
        b"TOPIC SET": Needs(Right.ADMIN, 2),
        b"TOPIC GET": Needs(Right.MONITOR, 2),
        b"TOPIC DELETE": Needs(Right.ADMIN, 2),
        b"GROUP": Needs(Right.ADMIN),
        b"GROUP CREATE": Needs(Right.ADMIN, 2),  # who may consume makes one by using it
        b"GROUP LIST": Needs(Right.MONITOR, 2),
        b"GROUP MEMBERS": Needs(Right.MONITOR, 2),
        b"GROUP SEEK": Needs(Right.ADMIN, 2),
        b"GROUP DELETE": Needs(Right.ADMIN, 2),
        b"PAUSE": Needs(Right.ADMIN, 1),
        b"RESUME": Needs(Right.ADMIN, 1),
        b"PURGE": Needs(Right.ADMIN, 1),
        b"CANCEL": Needs(Right.PUBLISH, 1),
        b"SCHEDULE": Needs(Right.ADMIN),  # names of schedules are those of the whole broker
        b"SCHEDULE SET": Needs(Right.ADMIN),
        b"SCHEDULE GET": Needs(Right.MONITOR),
        b"SCHEDULE LIST": Needs(Right.MONITOR),
        b"SCHEDULE DELETE": Needs(Right.ADMIN),
        b"LEN": Needs(Right.MONITOR, 1),
        b"STATS": Needs(Right.MONITOR, 1),
        b"PEEK": Needs(Right.MONITOR, 1),
        b"TRACE": Needs(Right.MONITOR, 1),
        b"READ": Needs(Right.CONSUME, 1),
        b"PARTITIONS": Needs(Right.CONSUME, 1),
        b"INFO": Needs(Right.MONITOR),
        b"CONFIG": Needs(Right.MONITOR),
        b"CLIENT": Needs(Right.KNOWN),
        b"CLIENT LIST": Needs(Right.MONITOR),
        b"COMMAND": Needs(Right.KNOWN),
        b"SELECT": Needs(Right.KNOWN),
        b"ECHO": Needs(Right.KNOWN),
    }
)

#: By method and path; those of the monitoring port too.
ROUTES: Mapping[tuple[str, str], Needs] = MappingProxyType(
    {
        ("POST", "/publish/{topic}"): Needs(Right.PUBLISH, 1),
        ("POST", "/request/{topic}"): Needs(Right.PUBLISH, 1),
        ("POST", "/topics/{topic}/reply"): Needs(Right.CONSUME, 1),
        ("POST", "/subscribe/{topic}"): Needs(Right.CONSUME, 1),
        ("DELETE", "/{topic}"): Needs(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/redrive"): Needs(Right.ADMIN, 1),
        ("PUT", "/topics/{topic}"): Needs(Right.ADMIN, 1),
        ("PATCH", "/topics/{topic}"): Needs(Right.ADMIN, 1),
        ("GET", "/topics/{topic}"): Needs(Right.MONITOR, 1),
        ("DELETE", "/topics/{topic}"): Needs(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/receive"): Needs(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/ack"): Needs(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/nack"): Needs(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/back"): Needs(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/dack"): Needs(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/reject"): Needs(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/extend"): Needs(Right.CONSUME, 1),
        ("DELETE", "/topics"): Needs(Right.ADMIN, 1),  # as /{topic}: a topic may have this name
        ("GET", "/topics"): Needs(Right.KNOWN),  # those that the user may look into
        ("GET", "/topics/{topic}/groups"): Needs(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/groups/{id}"): Needs(Right.MONITOR, 1),
        ("PUT", "/topics/{topic}/groups/{id}"): Needs(Right.ADMIN, 1),
        ("DELETE", "/topics/{topic}/groups/{id}"): Needs(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/groups/{id}/seek"): Needs(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/pause"): Needs(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/resume"): Needs(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/purge"): Needs(Right.ADMIN, 1),
        ("GET", "/topics/{topic}/messages"): Needs(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/messages/{id}"): Needs(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/messages/{id}/trace"): Needs(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/partitions"): Needs(Right.CONSUME, 1),
        ("GET", "/topics/{topic}/partitions/{id}"): Needs(Right.CONSUME, 1),
        ("DELETE", "/topics/{topic}/messages/{id}"): Needs(Right.PUBLISH, 1),
        ("PUT", "/schedules/{name}"): Needs(Right.ADMIN),
        ("GET", "/schedules/{name}"): Needs(Right.MONITOR),
        ("GET", "/schedules"): Needs(Right.MONITOR),
        ("DELETE", "/schedules/{name}"): Needs(Right.ADMIN),
        ("DELETE", "/schedules"): Needs(Right.ADMIN, 1),  # as /{topic}: a topic may have this name
        ("GET", "/healthz"): Needs(Right.OPEN),
        ("GET", "/livez"): Needs(Right.OPEN),
        ("GET", "/readyz"): Needs(Right.OPEN),
        ("GET", "/metrics"): Needs(Right.MONITOR),
        ("GET", "/stats"): Needs(Right.MONITOR),
        ("GET", "/backup"): Needs(Right.ADMIN),
    }
)

_UNKNOWN = Needs(Right.KNOWN)


def command_needs(command: list[bytes]) -> Needs:
    """Return what a command takes; one that does not exist is for users to be told so."""
    name = command[0].upper()
    if len(command) > 1:
        needs = COMMANDS.get(b"%b %b" % (name, command[1].upper()[:_MAX_SUBCOMMAND_BYTES]))
        if needs is not None:
            return needs
        if name == b"SUBSCRIBE" and is_redis_channel(command[1]):
            return COMMANDS[b"PSUBSCRIBE"]
    return COMMANDS.get(name, _UNKNOWN)


_MAX_SUBCOMMAND_BYTES = 32  # the word may be a message: only its beginning is looked at

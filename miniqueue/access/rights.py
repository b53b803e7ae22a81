"""The one table of rights: every RESP command and every HTTP route, with the right that it requires.

    PUBLISH orders.eu x  ──▶  RequiredRight(PUBLISH, topic_at=1)  ──▶  has the user a role with that right
                                                                       whose patterns match orders.eu?

    right      publisher  subscriber  monitor  admin
    PUBLISH        x                             x
    CONSUME                   x                  x
    MONITOR                              x       x
    ADMIN                                        x

A command without a topic concerns the whole broker, and requires the right on `*`. `KNOWN` is for every user, `OPEN`
also for clients that have not authenticated. The words of a stream have no entries: the right is checked when the
stream begins, and a stream ends when its user changes.

Tests compare the table with the commands and routes of the server.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from miniqueue.core.options.redis_channels import is_redis_channel


class Right(Enum):
    """The rights that commands and routes require."""

    OPEN = "open"
    KNOWN = "known"
    PUBLISH = "publish"
    CONSUME = "consume"
    MONITOR = "monitor"
    ADMIN = "admin"


class RequiredRight(NamedTuple):
    """The right that a command or a route requires.

    Attributes:
      right: the right.
      topic_at: the index of the word with the topic in a command, which is word 0; of a route, any number: its path
        ends with the topic, or begins with `/topics/{topic}`. None: it concerns the whole broker.
    """

    right: Right
    topic_at: int | None = None


#: The rights of each role, on the topics of the role.
ROLES: Mapping[str, frozenset[Right]] = MappingProxyType(
    {
        "publisher": frozenset({Right.PUBLISH}),
        "subscriber": frozenset({Right.CONSUME}),
        "monitor": frozenset({Right.MONITOR}),
        "admin": frozenset({Right.PUBLISH, Right.CONSUME, Right.MONITOR, Right.ADMIN}),
    }
)

#: The right of each command, by its name in capitals; the entry of a subcommand has precedence over its command.
COMMANDS: Mapping[bytes, RequiredRight] = MappingProxyType(
    {
        b"AUTH": RequiredRight(Right.OPEN),
        b"HELLO": RequiredRight(Right.OPEN),
        b"PING": RequiredRight(Right.OPEN),
        b"QUIT": RequiredRight(Right.OPEN),
        b"RESET": RequiredRight(Right.OPEN),
        # A command before AUTH within a transaction is refused, and the whole transaction with it.
        b"MULTI": RequiredRight(Right.OPEN),
        b"EXEC": RequiredRight(Right.KNOWN),
        b"DISCARD": RequiredRight(Right.KNOWN),
        b"WATCH": RequiredRight(Right.KNOWN),
        b"UNWATCH": RequiredRight(Right.KNOWN),
        b"PUBLISH": RequiredRight(Right.PUBLISH, 1),
        b"PUB": RequiredRight(Right.PUBLISH, 1),
        b"MPUBLISH": RequiredRight(Right.PUBLISH, 1),
        b"PUBBATCH": RequiredRight(Right.PUBLISH, 1),
        b"PUBEACH": RequiredRight(Right.PUBLISH, 1),
        b"PUBPACKED": RequiredRight(Right.PUBLISH, 1),
        b"REQUEST": RequiredRight(Right.PUBLISH, 1),
        b"REPLY": RequiredRight(Right.CONSUME, 1),
        b"SUBSCRIBE": RequiredRight(Right.CONSUME, 1),
        b"SUB": RequiredRight(Right.CONSUME, 1),
        b"PSUBSCRIBE": RequiredRight(Right.KNOWN),  # channels of Redis, which have no messages
        b"UNSUBSCRIBE": RequiredRight(Right.KNOWN),
        b"PUNSUBSCRIBE": RequiredRight(Right.KNOWN),
        b"GET": RequiredRight(Right.CONSUME, 1),
        b"RECEIVE": RequiredRight(Right.CONSUME, 1),
        b"RECEIVEANY": RequiredRight(Right.KNOWN),  # the command checks CONSUME for each topic
        b"ACK": RequiredRight(Right.CONSUME, 1),
        b"NACK": RequiredRight(Right.CONSUME, 1),
        b"BACK": RequiredRight(Right.CONSUME, 1),
        b"DACK": RequiredRight(Right.CONSUME, 1),
        b"REJECT": RequiredRight(Right.CONSUME, 1),
        b"EXTEND": RequiredRight(Right.CONSUME, 1),
        b"LEASES": RequiredRight(Right.CONSUME, 1),  # without a topic: those that the user may consume
        b"TOPICS": RequiredRight(Right.KNOWN),  # lists the topics for which the user has a role
        b"TOPIC": RequiredRight(Right.ADMIN),
        b"REDRIVE": RequiredRight(Right.ADMIN, 1),
        b"TOPIC CREATE": RequiredRight(Right.ADMIN, 2),
        b"TOPIC SET": RequiredRight(Right.ADMIN, 2),
        b"TOPIC GET": RequiredRight(Right.MONITOR, 2),
        b"TOPIC DELETE": RequiredRight(Right.ADMIN, 2),
        b"TOPIC HELP": RequiredRight(Right.KNOWN),
        b"GROUP": RequiredRight(Right.ADMIN),
        b"GROUP CREATE": RequiredRight(Right.ADMIN, 2),  # consumers create groups by using them
        b"GROUP LIST": RequiredRight(Right.MONITOR, 2),
        b"GROUP MEMBERS": RequiredRight(Right.MONITOR, 2),
        b"GROUP HOLDERS": RequiredRight(Right.MONITOR),  # shows users and addresses, as CLIENT LIST does
        b"GROUP SEEK": RequiredRight(Right.ADMIN, 2),
        b"GROUP DELETE": RequiredRight(Right.ADMIN, 2),
        b"PAUSE": RequiredRight(Right.ADMIN, 1),
        b"RESUME": RequiredRight(Right.ADMIN, 1),
        b"PURGE": RequiredRight(Right.ADMIN, 1),
        b"CANCEL": RequiredRight(Right.PUBLISH, 1),
        b"MESSAGE": RequiredRight(Right.ADMIN),
        b"MESSAGE DELETE": RequiredRight(Right.ADMIN, 2),
        b"MESSAGE FRONT": RequiredRight(Right.ADMIN, 2),
        b"MESSAGE REDRIVE": RequiredRight(Right.ADMIN, 2),
        b"MESSAGE DUE": RequiredRight(Right.ADMIN, 2),
        b"MESSAGES": RequiredRight(Right.ADMIN),
        b"MESSAGES DELETE": RequiredRight(Right.ADMIN, 2),
        b"MESSAGES FRONT": RequiredRight(Right.ADMIN, 2),
        b"MESSAGES REDRIVE": RequiredRight(Right.ADMIN, 2),
        b"MESSAGES DUE": RequiredRight(Right.ADMIN, 2),
        b"TASK": RequiredRight(Right.KNOWN),  # checks MONITOR, or ADMIN to cancel, on the topic of the task
        b"SCHEDULE": RequiredRight(Right.ADMIN),  # names of schedules are unique in the broker
        b"SCHEDULE SET": RequiredRight(Right.ADMIN),
        b"SCHEDULE GET": RequiredRight(Right.MONITOR),
        b"SCHEDULE LIST": RequiredRight(Right.MONITOR),
        b"SCHEDULE FIRE": RequiredRight(Right.ADMIN),
        b"SCHEDULE DELETE": RequiredRight(Right.ADMIN),
        b"LEN": RequiredRight(Right.MONITOR, 1),
        b"STATS": RequiredRight(Right.MONITOR, 1),
        b"PEEK": RequiredRight(Right.MONITOR, 1),
        b"SEARCH": RequiredRight(Right.MONITOR, 1),
        b"TRACE": RequiredRight(Right.MONITOR, 1),
        b"READ": RequiredRight(Right.CONSUME, 1),
        b"PARTITIONS": RequiredRight(Right.CONSUME, 1),
        b"EVENTS": RequiredRight(Right.KNOWN),  # sends the events that the user may monitor
        b"USAGE": RequiredRight(Right.KNOWN),  # shows the user; with MONITOR on the whole broker, all users
        b"INFO": RequiredRight(Right.MONITOR),
        b"CONFIG": RequiredRight(Right.MONITOR),
        b"CLIENT": RequiredRight(Right.KNOWN),
        b"CLIENT LIST": RequiredRight(Right.MONITOR),
        b"CLUSTER": RequiredRight(Right.KNOWN),
        b"COMMAND": RequiredRight(Right.KNOWN),
        b"SELECT": RequiredRight(Right.KNOWN),
        b"ECHO": RequiredRight(Right.KNOWN),
    }
)

#: The right of each route, by method and path, including the routes of the monitoring port.
ROUTES: Mapping[tuple[str, str], RequiredRight] = MappingProxyType(
    {
        ("POST", "/publish/{topic}"): RequiredRight(Right.PUBLISH, 1),
        ("POST", "/request/{topic}"): RequiredRight(Right.PUBLISH, 1),
        ("POST", "/topics/{topic}/reply"): RequiredRight(Right.CONSUME, 1),
        ("POST", "/subscribe/{topic}"): RequiredRight(Right.CONSUME, 1),
        ("DELETE", "/{topic}"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/redrive"): RequiredRight(Right.ADMIN, 1),
        ("PUT", "/topics/{topic}"): RequiredRight(Right.ADMIN, 1),
        ("PATCH", "/topics/{topic}"): RequiredRight(Right.ADMIN, 1),
        ("GET", "/topics/{topic}"): RequiredRight(Right.MONITOR, 1),
        ("DELETE", "/topics/{topic}"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/receive"): RequiredRight(Right.CONSUME, 1),
        ("POST", "/receive"): RequiredRight(Right.KNOWN),  # the route checks CONSUME for each topic of the query
        ("DELETE", "/receive"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("POST", "/topics/{topic}/ack"): RequiredRight(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/nack"): RequiredRight(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/back"): RequiredRight(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/dack"): RequiredRight(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/reject"): RequiredRight(Right.CONSUME, 1),
        ("POST", "/topics/{topic}/extend"): RequiredRight(Right.CONSUME, 1),
        ("DELETE", "/topics"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("GET", "/topics"): RequiredRight(Right.KNOWN),  # lists the topics that the user may inspect
        ("GET", "/topics/{topic}/groups"): RequiredRight(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/groups/{id}"): RequiredRight(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/groups/{id}/holders"): RequiredRight(Right.MONITOR),
        ("PUT", "/topics/{topic}/groups/{id}"): RequiredRight(Right.ADMIN, 1),
        ("DELETE", "/topics/{topic}/groups/{id}"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/groups/{id}/seek"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/groups/{id}/pause"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/groups/{id}/resume"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/pause"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/resume"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/purge"): RequiredRight(Right.ADMIN, 1),
        ("GET", "/topics/{topic}/messages"): RequiredRight(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/messages/{id}"): RequiredRight(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/messages/{id}/trace"): RequiredRight(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/search"): RequiredRight(Right.MONITOR, 1),
        ("GET", "/topics/{topic}/partitions"): RequiredRight(Right.CONSUME, 1),
        ("GET", "/topics/{topic}/partitions/{id}"): RequiredRight(Right.CONSUME, 1),
        # The route checks ADMIN for a message that was published without a delay, or is due.
        ("DELETE", "/topics/{topic}/messages/{id}"): RequiredRight(Right.PUBLISH, 1),
        ("POST", "/topics/{topic}/messages/{id}/front"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/messages/{id}/redrive"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/messages/{id}/due"): RequiredRight(Right.ADMIN, 1),
        ("POST", "/topics/{topic}/messages/{id}"): RequiredRight(Right.ADMIN, 1),  # the id is the name of an act
        ("GET", "/tasks"): RequiredRight(Right.KNOWN),  # lists the tasks of topics that the user may inspect
        ("GET", "/tasks/{id}"): RequiredRight(Right.KNOWN),  # the route checks MONITOR on the topic of the task
        ("DELETE", "/tasks/{id}"): RequiredRight(Right.KNOWN),  # the route checks ADMIN on the topic of the task
        ("DELETE", "/tasks"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("PUT", "/schedules/{name}"): RequiredRight(Right.ADMIN),
        ("GET", "/schedules/{name}"): RequiredRight(Right.MONITOR),
        ("GET", "/schedules"): RequiredRight(Right.MONITOR),
        ("POST", "/schedules/{name}/fire"): RequiredRight(Right.ADMIN),
        ("DELETE", "/schedules/{name}"): RequiredRight(Right.ADMIN),
        ("DELETE", "/schedules"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("GET", "/leases"): RequiredRight(Right.KNOWN),  # the route checks CONSUME: its topic is in the query
        ("DELETE", "/leases"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("POST", "/transactions"): RequiredRight(Right.KNOWN),  # the route checks PUBLISH and CONSUME for each act
        ("DELETE", "/transactions"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("GET", "/events"): RequiredRight(Right.KNOWN),  # sends the events that the user may monitor
        ("DELETE", "/events"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("GET", "/usage"): RequiredRight(Right.KNOWN),  # shows the user; with MONITOR on the whole broker, all users
        ("DELETE", "/usage"): RequiredRight(Right.ADMIN, 1),  # is /{topic}: a topic may have this name
        ("GET", "/healthz"): RequiredRight(Right.OPEN),
        ("GET", "/livez"): RequiredRight(Right.OPEN),
        ("GET", "/readyz"): RequiredRight(Right.OPEN),
        ("GET", "/metrics"): RequiredRight(Right.MONITOR),
        ("GET", "/stats"): RequiredRight(Right.MONITOR),
        ("GET", "/ui"): RequiredRight(Right.OPEN),
        ("GET", "/ui/assets"): RequiredRight(Right.OPEN),
        ("GET", "/ui/session"): RequiredRight(Right.OPEN),
        ("POST", "/ui/session"): RequiredRight(Right.OPEN),
        ("DELETE", "/ui/session"): RequiredRight(Right.OPEN),
        ("GET", "/ui/data"): RequiredRight(Right.KNOWN),  # shows what the user may monitor
        ("GET", "/ui/live"): RequiredRight(Right.KNOWN),  # the same
        ("GET", "/backup"): RequiredRight(Right.ADMIN),
        ("GET", "/changes"): RequiredRight(Right.ADMIN),
        ("GET", "/shards/{n}/backup"): RequiredRight(Right.ADMIN),  # the shard checks this right
        ("GET", "/shards/{n}/changes"): RequiredRight(Right.ADMIN),
    }
)

_UNKNOWN = RequiredRight(Right.KNOWN)
#: Maximum length of a subcommand: the second word may be a long message, and only its beginning is compared.
_MAX_SUBCOMMAND_BYTES = 32


def command_needs(command: list[bytes]) -> RequiredRight:
    """Return the right that a command requires; an unknown command requires a user, who gets an error."""
    name = command[0].upper()
    if len(command) > 1:
        needs = COMMANDS.get(b"%b %b" % (name, command[1].upper()[:_MAX_SUBCOMMAND_BYTES]))
        if needs is not None:
            return needs
        if name == b"SUBSCRIBE" and is_redis_channel(command[1]):
            return COMMANDS[b"PSUBSCRIBE"]
    return COMMANDS.get(name, _UNKNOWN)

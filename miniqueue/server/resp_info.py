"""INFO over RESP: how the broker is, in the sections and under the names that tools for Redis read.

`redis-cli --stat` needs the fields of clients, memory, stats and keyspace; valkey-glide asks for `replication` and
connects only to a `master`.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from miniqueue import __version__
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

_ALL = frozenset({"all", "everything", "default"})
_STATM = Path("/", "proc", "self", "statm")


def info(connection: "RespConnection", command: Command) -> bytes:
    """Return the sections that a command names, or all of them."""
    names = {word.decode("utf-8", "replace").lower() for word in command[1:]}
    if not names or names & _ALL:
        names = set(_SECTIONS)
    sections = [_section(name, fields(connection)) for name, fields in _SECTIONS.items() if name in names]
    return replies.bulk("\r\n".join(sections).encode())


_Fields = dict[str, str | int]


def _section(name: str, fields: _Fields) -> str:
    return "".join([f"# {name.capitalize()}\r\n", *(f"{field}:{value}\r\n" for field, value in fields.items())])


def _server(connection: "RespConnection") -> _Fields:
    return {
        "redis_version": f"miniqueue_v{__version__}",
        "redis_mode": "standalone",
        "process_id": os.getpid(),
        "tcp_port": connection.server.parameters.get("port", ""),
        "uptime_in_seconds": int(time.monotonic() - connection.server.started_at),
    }


def _clients(connection: "RespConnection") -> _Fields:
    connections = connection.server.all_connections()
    return {
        "connected_clients": len(connections),
        "blocked_clients": sum(one.is_blocked for one in connections),
    }


def _memory(_connection: "RespConnection") -> _Fields:
    resident_pages = int(_STATM.read_text().split()[1])
    return {"used_memory": resident_pages * os.sysconf("SC_PAGE_SIZE")}


def _persistence(connection: "RespConnection") -> _Fields:
    refusal = connection.broker.refusal
    return {
        "loading": 0,
        "rdb_bgsave_in_progress": 0,
        "aof_rewrite_in_progress": 0,
        "refusal": refusal.code if refusal else "",
    }


def _stats(connection: "RespConnection") -> _Fields:
    server = connection.server
    return {
        "total_connections_received": server.connections_received,
        "total_commands_processed": server.commands_processed,
    }


def _replication(_connection: "RespConnection") -> _Fields:
    return {"role": "master", "connected_slaves": 0}


def _topics(connection: "RespConnection") -> _Fields:
    return {"topics": len(connection.broker.topics()), "messages": _message_count(connection)}


def _keyspace(connection: "RespConnection") -> _Fields:
    return {"db0": f"keys={_message_count(connection)},expires=0,avg_ttl=0"}


def _message_count(connection: "RespConnection") -> int:
    return sum(topic.ready + topic.leased + topic.delayed for topic in connection.broker.stats().values())


_SECTIONS: "dict[str, Callable[[RespConnection], _Fields]]" = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "topics": _topics,
    "keyspace": _keyspace,
}

"""INFO: the state of the broker, in the sections and under the names that tools for Redis read.

`redis-cli --stat` requires the fields of clients, memory, stats and keyspace; valkey-glide requests `replication` and
connects only to a `master`.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from miniqueue import __version__
from miniqueue.broker.runtime.accounts import UNLIMITED, Purpose
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.server.views.outbox import outbox_fields
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

_ALL = frozenset({"all", "everything", "default"})
#: The sections for which all topics are counted.
_OF_TOPICS = frozenset({"topics", "keyspace"})
_STATM = Path("/", "proc", "self", "statm")


def info(client: Client, command: Command) -> bytes:
    """Answer with the sections that the command names; without names, with all of them."""
    names = {word.decode("utf-8", "replace").lower() for word in command[1:]}
    if not names or names & _ALL:
        names = set(_SECTIONS)
    return answer_later(client, _info(client, names))


async def _info(client: Client, names: set[str]) -> bytes:
    content = await client.broker.inspect.content() if names & _OF_TOPICS else (0, 0)
    sections = {name: fields(client, content) for name, fields in _SECTIONS.items() if name in names}
    texts = [_section(name, fields) for name, fields in sections.items() if fields]
    return replies.bulk("\r\n".join(texts).encode())


_Fields = Mapping[str, str | int | float]
#: The number of topics, and of their messages.
_Content = tuple[int, int]


def _section(name: str, fields: _Fields) -> str:
    return "".join([f"# {name.capitalize()}\r\n", *(f"{field}:{value}\r\n" for field, value in fields.items())])


def _server(client: Client, _content: _Content) -> _Fields:
    return {
        "redis_version": f"miniqueue_v{__version__}",
        "redis_mode": client.server.nodes.mode,
        "process_id": os.getpid(),
        "tcp_port": client.server.parameters.get("port", ""),
        "uptime_in_seconds": int(time.monotonic() - client.server.started_at),
    }


def _clients(client: Client, _content: _Content) -> _Fields:
    clients = client.server.clients()
    return {
        "connected_clients": len(clients),
        "blocked_clients": sum(other.is_blocked for other in clients),
    }


def _memory(client: Client, _content: _Content) -> _Fields:
    memory, resident_pages = client.broker.memory, int(_STATM.read_text().split()[1])
    amounts = memory.amounts()
    return {
        "used_memory": resident_pages * os.sysconf("SC_PAGE_SIZE"),
        "maxmemory": 0 if memory.max_bytes >= UNLIMITED else memory.max_bytes,
        "memory_charged": memory.used_bytes,
        **{f"memory_{purpose}": amounts.get(purpose, 0) for purpose in Purpose},
    }


def _persistence(client: Client, _content: _Content) -> _Fields:
    refusal = client.broker.refusal
    return {
        "loading": 0,
        "rdb_bgsave_in_progress": 0,
        "aof_rewrite_in_progress": 0,
        "refusal": refusal.code if refusal else "",
    }


def _stats(client: Client, _content: _Content) -> _Fields:
    server = client.server
    return {
        "total_connections_received": server.connections_received,
        "total_commands_processed": server.commands_processed,
    }


def _replication(_client: Client, _content: _Content) -> _Fields:
    return {"role": "master", "connected_slaves": 0}


def _topics(_client: Client, content: _Content) -> _Fields:
    topic_count, message_count = content
    return {"topics": topic_count, "messages": message_count}


def _keyspace(_client: Client, content: _Content) -> _Fields:
    return {"db0": f"keys={content[1]},expires=0,avg_ttl=0"}


def _outbox(client: Client, _content: _Content) -> _Fields:
    return outbox_fields(client.broker)


_SECTIONS: dict[str, Callable[[Client, _Content], _Fields]] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "topics": _topics,
    "keyspace": _keyspace,
    "outbox": _outbox,
}

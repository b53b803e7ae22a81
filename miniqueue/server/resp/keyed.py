"""PUBs with a key, and no other option, that follow each other in a pipeline: they are published together.

    PUB t a KEY k   PUB t b KEY l   PUB t c KEY k   LEN t
    └─────────── one list of messages ──────────┘─▶ in one commit ─▶ the reply of each, when it is done

If one of them is refused, or all are, none is published together: each is carried out by itself, with its own reply.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import hiredis

from miniqueue.core.message.ids import runs_of, seqs_from
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import MAX_KEY_BYTES
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.resp.replies import Several
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Parsed

#: Maximum number of messages that are published together; a read has fewer, unless they are tiny.
MAX_TOGETHER: Final = 128
#: PUB, as clients spell it, and the words of one with a key.
PUBS: Final = b"PUB", b"pub"
KEYS: Final = b"KEY", b"key"
WORDS: Final = 5


class KeyedRun(NamedTuple):
    """Messages for one topic, each with a key.

    Attributes:
      topic: the name of the topic.
      payloads: the messages.
      keys: their keys.
    """

    topic: bytes
    payloads: list[bytes]
    keys: list[bytes]


def keyed_run(commands: Sequence[Parsed], start: int) -> KeyedRun | None:
    """Return what the commands from `start` on, of which the first is a PUB, publish together; None for fewer than two.

    The first command that is no such PUB to the same topic ends the run.
    """
    run = _alike(commands[start : start + MAX_TOGETHER])
    if len(run) < 2:
        return None
    _, (topic, *_), payloads, _, keys = map(list, zip(*run, strict=True))
    return KeyedRun(topic, payloads, keys) if all(keys) and max(map(len, keys)) <= MAX_KEY_BYTES else None


def _alike(commands: Sequence[Parsed]) -> list[Command]:
    """Return the first commands that have a key and the name and topic of the first one."""
    alike, head = list[Command](), commands[0][:2]
    for command in commands:
        if len(command) != WORDS or command[:2] != head or command[3] not in KEYS:
            break
        alike.append(command)
    return alike


def encode_keyed(topics: Sequence[bytes], payloads: Sequence[bytes], keys: Sequence[bytes]) -> bytes:
    """Return the PUBs of messages as a client sends them, joined in C."""
    commands: Iterator[tuple[Any, ...]] = zip(repeat(PUBS[0]), topics, payloads, repeat(KEYS[0]), keys, strict=False)
    return b"".join(map(hiredis.pack_command, commands))


def publish_keyed(client: Client, run: KeyedRun) -> None:
    """Publish messages together; the replies come with their commit. Raises MiniqueueError; then none is published."""
    accepted = client.broker.publish_batch(run.topic, run.payloads, b"", BatchOptions(run.keys))
    count = len(run.keys)
    client.wait_for(accepted.commit, Several.of(ids_of(accepted.message_id, count), count), 1, accepted.size_bytes)


def ids_of(message_id: bytes, count: int) -> bytes:
    """Return the replies to PUBs; `message_id` contains the ids of all messages."""
    return b"".join([replies.numbered_bulks(*seqs_from(*run)) for run in runs_of(message_id, count)])

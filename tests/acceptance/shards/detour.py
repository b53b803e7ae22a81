"""The broker with shards whose clients reach a process that owns no topic: each command takes the detour.

    client ─▶ shard 0, which has no topic ─▶ shard 1, 2, … which accept no client

    MINIQUEUE_TEST_SHARDS=3 MINIQUEUE_COMMAND="$PWD/.venv/bin/python -m tests.acceptance.shards.detour" pytest …

So the tests of both protocols are run as they are, with any names of topics. Everything else is `miniqueue.cli.main`;
without shards, nothing differs. `exceptions` has the tests that do not apply to shards.
"""

import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from miniqueue import cli
from miniqueue.core.message.parts import parse_part
from miniqueue.core.message.slots import SLOT_COUNT, slot_of
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX
from miniqueue.server import run

#: The number of the shard that serves all clients.
DOOR = 0


def shard_of(placing: Placing, topic: bytes) -> int:
    """Return the number of the shard with a topic, which is never the door."""
    owner_count = placing.shard_count - 1
    if not owner_count:
        return DOOR
    part = parse_part(topic)
    if part is not None:
        return shard_of_part(placing, *part)
    while topic.endswith(DEAD_LETTER_SUFFIX):
        topic = topic[: -len(DEAD_LETTER_SUFFIX)]
    return 1 + slot_of(topic) * owner_count // SLOT_COUNT


def shard_of_part(placing: Placing, topic: bytes, number: int) -> int:
    """Return the number of the shard with a part of a spread topic, which is never the door."""
    owner_count = placing.shard_count - 1
    return 1 + (shard_of(placing, topic) - 1 + number) % owner_count if owner_count else DOOR


async def _serve(
    config: Any,
    certificates: Any,
    users: Any,
    sign_in: Any,
    listening: AbstractContextManager[Any],
    shard: Any = None,
) -> None:
    if shard is not None and shard.placing.number != DOOR:  # ports that no client knows
        listening = run._listen(replace(config, port=0, resp_port=0, monitor_port=0, shards=1))
    await _real_serve(config, certificates, users, sign_in, listening, shard)


_real_serve = run._serve

if __name__ == "__main__":
    Placing.shard_of, Placing.shard_of_part = shard_of, shard_of_part
    run._serve = _serve
    sys.exit(cli.main(sys.argv[1:]))

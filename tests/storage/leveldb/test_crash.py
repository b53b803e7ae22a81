"""Real processes: what a kill leaves behind, and what a fork may not do."""

import asyncio
import signal
import subprocess
import sys

import pytest

from miniqueue.storage.leveldb.store import LevelDBStore
from tests.storage.contract import everything

WRITER = """
import asyncio, sys
from pathlib import Path
from miniqueue.storage.leveldb.database import DatabaseOptions
from miniqueue.storage.leveldb.store import LevelDBStore

async def main(path, first):
    store = await LevelDBStore.open(Path(path), options=DatabaseOptions(write_buffer_bytes=1 << 16))
    number = int(first)
    while True:
        value = b"%d" % number * 200
        await store.write({b"a%09d" % number: value, b"b%09d" % number: value, b"last": b"%d" % number})
        print(number, flush=True)
        number += 1

asyncio.run(main(*sys.argv[1:]))
"""


def acknowledged_before_kill(path, first: int, count: int) -> int:
    """Run the writer from number `first`, kill it after `count` acknowledgements, return the last number."""
    command = [sys.executable, "-c", WRITER, str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(count):
            assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split("\n")[:-1]  # a line without an end was not printed whole
        assert writer.wait() == -signal.SIGKILL
    return first + count + len(rest) - 1


@pytest.mark.slow
def test_every_acknowledged_batch_survives_a_kill_and_is_whole(tmp_path):
    async def content():
        store = await LevelDBStore.open(tmp_path)
        pairs = dict(await everything(store))
        await store.close()
        return pairs

    first = 0
    for count in (1, 50, 137, 400, 777):
        last = acknowledged_before_kill(tmp_path, first, count)
        pairs = asyncio.run(content())
        kept = int(pairs.pop(b"last"))
        assert last <= kept <= last + 1  # the one under way when the kill came may be there
        expected = {b"%c%09d" % (letter, n): b"%d" % n * 200 for letter in b"ab" for n in range(kept + 1)}
        assert pairs == expected
        first = kept + 1


FORK = """
import asyncio, os, sys
from pathlib import Path
from miniqueue.errors import StorageError
from miniqueue.storage.leveldb.store import LevelDBStore

async def attempt(store, pipe):
    for call in (lambda: store.write({b"k": b"child"}), lambda: store.get(b"k")):
        try:
            await call()
        except StorageError as error:
            os.write(pipe, f"{error}\\n".encode())
    await store.close()

async def main(path):
    store = await LevelDBStore.open(path)
    await store.write({b"k": b"parent"})
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.events._set_running_loop(None)
            asyncio.run(attempt(store, write))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    print(os.getpid(), os.read(read, 1000).decode(), end="")
    await store.write({b"k": b"still the parent"})
    print(await store.get(b"k"))
    await store.close()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_fork_may_not_use_the_store_and_does_not_harm_it(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    pid, _, text = finished.stdout.partition(" ")
    refusal = f"the store belongs to process {pid}: a fork of it must not use it\n"
    assert text == refusal * 2 + "b'still the parent'\n", finished.stderr

"""Every record: what it is called, and what is played for it."""

import asyncio
import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest import mock

from miniqueue import cli
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.fakes import FaultyStore
from tests.server.hypercorn.hostile import victim
from tests.transcripts.masks import masked
from tests.transcripts.script import Section, escaped, sections, words_of
from tests.transcripts.stage import Stage

RECORDS = Path(__file__).with_name("records")
#: What a store held when the transcripts began; it is never written again.
FIRST_STORE = RECORDS / "store_of_first_record.txt"


def _joined(parts: Iterable[list[str]]) -> str:
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def conversations(script: str, protocol: int = 2) -> str:
    """Return what clients and broker say to each other."""
    return _joined(Stage(section, protocol=protocol).play() for section in sections(script))


# --- what is stored -------------------------------------------------------------------------------------------


def dump() -> str:
    """Return the keys and values that a history leaves in the store, sorted, in hex; `-` is an empty value."""
    (section,) = sections("history.txt")
    stage = Stage(section)
    stage.play()
    return "".join(f"{key.hex()} {value.hex() or '-'}\n" for key, value in sorted(stage.store.pairs().items()))


def first_pairs() -> dict[bytes, bytes]:
    """Return what the first store held."""
    lines = FIRST_STORE.read_text().splitlines()
    pairs = (line.replace("-", "").split(" ") for line in lines)
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in pairs}


def look_into(store: Any) -> str:
    """Return what a broker on a store tells of it, and hands out."""
    return _joined(Stage(section, store=store).play() for section in sections("opened.txt"))


def opened() -> str:
    """Look into the first store, in memory."""
    store = FaultyStore()
    for key, value in first_pairs().items():
        store._put(key, value)
    return look_into(store)


class BusyStore:
    """A store with threads, which knows how many calls have yet to report."""

    def __init__(self, store: LevelDBStore) -> None:
        self.busy_count = 0
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._begin, found) if callable(found) else found

    def _begin(self, call: Callable[..., Any], *args: Any, **named: Any) -> "asyncio.Future[Any]":
        self.busy_count += 1
        future = asyncio.ensure_future(call(*args, **named))
        future.add_done_callback(self._note_end)
        return future

    def _note_end(self, _future: "asyncio.Future[Any]") -> None:
        self.busy_count -= 1


async def _make_first_store(directory: Path) -> None:
    store = await LevelDBStore.open(directory)
    await store.write(dict(first_pairs()))
    await store.close()


def opened_on_disk(directory: Path) -> str:
    """Look into the first store, as a LevelDB directory that was closed and opened again."""
    asyncio.run(_make_first_store(directory))
    return look_into(BusyStore(asyncio.run(LevelDBStore.open(directory))))


# --- below the applications -----------------------------------------------------------------------------------


def wire() -> str:
    """Return what the server of HTTP answers by itself, on sockets, and how it writes what applications answer."""
    return _joined(asyncio.run(_requests(section)) for section in sections("wire.txt"))


async def _requests(section: Section) -> list[str]:
    record = [f"== {section.title}"]
    async with victim(SimpleNamespace(cert="", key=""), is_tls=False) as server:
        for line in section.lines:
            heard = masked(await server.say(b"".join(words_of(line))))
            record += [line, *(f"  {escaped(part)}" for part in heard.splitlines(keepends=True))]
    return record


# --- command lines --------------------------------------------------------------------------------------------


def usage() -> str:
    """Return what command lines print, and their exit codes."""
    return _joined(map(_commands, sections("usage.txt")))


def _commands(section: Section) -> list[str]:
    record = [f"== {section.title}"]
    said: dict[str, str] = {}
    with _elsewhere():
        if section.lines[0] == "! with store":
            asyncio.run(_make_first_store(Path("first")))
        for line in section.lines:
            if line.startswith("! "):
                continue
            words = [word.decode() for word in words_of(line)]
            out, err = _printed(), _printed()
            typed = mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
            with typed, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = cli.main(words, {})
            record += [f"miniqueue {line}", f"  exit {code}"]
            text = _text_of(out)
            if text and text in said:
                record.append(f"  out  what {said[text]} has printed")
            else:
                said[text] = line
                record += [f"  out  {_shown(part)}" for part in text.splitlines(keepends=True)]
            record += [f"  err  {_shown(part)}" for part in _text_of(err).splitlines(keepends=True)]
    return record


def _printed() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True)


def _text_of(printed: io.TextIOWrapper) -> str:
    content = printed.buffer
    assert isinstance(content, io.BytesIO)
    return content.getvalue().decode()


def _shown(text: str) -> str:
    return escaped(masked(text.encode()))


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Be in a directory that is empty."""
    before, directory = Path.cwd(), tempfile.mkdtemp()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
        shutil.rmtree(directory)


#: By the name of the record.
PLAYS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "resp2.txt": partial(conversations, "resp.txt"),
        "resp3.txt": partial(conversations, "resp.txt", protocol=3),
        "http.txt": partial(conversations, "http.txt"),
        "history.txt": partial(conversations, "history.txt"),
        "store.txt": dump,
        "opened.txt": opened,
        "wire.txt": wire,
        "usage.txt": usage,
    }
)

"""Count what a reader of the code passes when following one message: `python -m benchmarks.call_paths --help`.

One message goes through the real broker and real RESP connections, on LevelDB in a temporary folder; only the sockets
are fake. Each path is walked twice and the second message is counted, so that what is made once does not count.

    calls     functions of miniqueue that are entered, in call order; a coroutine counts once, when it begins
    changes   how often the reader opens a file: the first one, and each time the next function is in another file
    returns   changes that lead to a file that was open before
    files     different files

Calls on the event loop and on the store's threads are in one order, because those threads only work while the loop has
nothing to do. Time stands still unless a path advances it. The counts are therefore the same in each run.

`--before COMMIT` also measures the package of an earlier commit, in a process that runs this same file. This module
therefore imports neither tests nor other benchmarks, and looks for classes at their former addresses too.
"""

# ruff: noqa: ANN401, D102 - classes are those of either tree; many methods are those of asyncio
import argparse
import asyncio
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from itertools import groupby
from opcode import opmap
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

START_MS = 1_700_000_000_000
#: More than a settle waits for company before its commit begins (`journal.SETTLE_DELAY_SECONDS`).
SETTLE_SECONDS = 0.01
DELAY_SECONDS = 1.0
#: The store syncs its directory with each write while the directory is younger than 20 ms (`directory_sync.TICK_NS`).
SETTLED_NS = 50_000_000

#: Where classes are, the present address first, and then that of commit 58ab514.
ADDRESSES = {
    "Broker": ("miniqueue.broker",),
    "LevelDBStore": ("miniqueue.storage.leveldb.store", "miniqueue.storage.leveldb"),
    "RespServer": ("miniqueue.server.resp.server", "miniqueue.server.resp_server"),
}


class Call(NamedTuple):
    """A function of miniqueue that was entered; `depth` counts the functions of miniqueue that wait for it."""

    file: str
    function: str
    depth: int
    thread: str


class Figures(NamedTuple):
    """What a reader of a path passes; see the module."""

    calls: int
    changes: int
    returns: int
    files: int


def figures_of(calls: list[Call]) -> Figures:
    """Return the figures of a path."""
    opened = [file for file, _ in groupby(call.file for call in calls)]
    file_count = len(set(opened))
    return Figures(len(calls), len(opened), len(opened) - file_count, file_count)


# --- recording ----------------------------------------------------------------------------------------------------


class Recorder:
    """Records calls, and makes the store's threads work only while the event loop has nothing to do."""

    def __init__(self, package: str) -> None:
        self.calls: list[Call] | None = None
        self.jobs = 0  # jobs that the store's threads have not reported to the loop yet
        self.loop_rests = threading.Event()
        self._package = package + os.sep

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record a call; for `sys.setprofile`."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._package):
            return
        file = code.co_filename[len(self._package) :]
        if file.endswith(("leveldb/store.py", "worker.py")):
            self._keep_order(code.co_name)
        if self.calls is None or frame.f_lasti > _first_instruction(frame):
            return
        if code.co_name.startswith("<") and code.co_name != "<lambda>":
            return  # a comprehension is a part of its function
        self.calls.append(Call(file, code.co_qualname, self._depth(frame), threading.current_thread().name))

    def _keep_order(self, function: str) -> None:
        if function == "_enqueue":
            self.jobs += 1
        elif function == "_settle":
            self.jobs -= 1
        elif function == "_do":
            self.loop_rests.wait()

    def _depth(self, frame: FrameType | None) -> int:
        depth = -1
        while frame is not None:
            depth += frame.f_code.co_filename.startswith(self._package)
            frame = frame.f_back
        return depth

    @contextmanager
    def recording(self) -> Iterator[list[Call]]:
        """Record the calls of the block."""
        self.calls = calls = []
        try:
            yield calls
        finally:
            self.calls = None


def _first_instruction(frame: FrameType) -> int:
    """Return where a frame is when its function is entered: after that, a coroutine is resumed."""
    code = frame.f_code
    return next(at for at in range(0, len(code.co_code), 2) if code.co_code[at] == opmap["RESUME"])


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still until it is advanced."""

    def __init__(self, recorder: Recorder) -> None:
        self.seconds = 0.0
        self._patient = _Selector(recorder)
        super().__init__(self._patient)

    def time(self) -> float:
        return self.seconds

    async def quiet(self) -> None:
        """Wait until no task can continue and no store's thread has anything to do."""
        self._patient.quiet = self.create_future()
        await self._patient.quiet


class _Selector(selectors.DefaultSelector):
    """Lets the store's threads work when the loop would wait."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.quiet: asyncio.Future[None] | None = None
        self._recorder = recorder

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if self.quiet is not None and not self._recorder.jobs:
            self.quiet.set_result(None)
            self.quiet = None
            return []
        self._recorder.loop_rests.set()
        try:
            return super().select(timeout)
        finally:
            self._recorder.loop_rests.clear()


# --- the world ----------------------------------------------------------------------------------------------------


class Clock:
    """A wall clock and a monotonic clock that stand still until they are advanced."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return START_MS + round(1000 * self.seconds)

    next_ms = now_ms

    def monotonic(self) -> float:
        return self.seconds


class Transport:
    """Keeps what a connection writes."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._written = b""
        self._is_closing = False

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 50_000) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self._written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        pass  # nothing ever waits

    def take(self) -> bytes:
        """Return what was written since the last call."""
        written, self._written = self._written, b""
        return written

    def is_reading(self) -> bool:
        return not self._is_closing

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def lose(self) -> None:
        """End the connection, as when the client is gone."""
        self._is_closing = True
        self._protocol.connection_lost(None)


class Client:
    """A RESP client without a socket."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._connection = world.server()
        self.transport = Transport(self._connection)
        self._connection.connection_made(self.transport)

    def send(self, line: bytes) -> None:
        """Send one command, and run no task."""
        words = line.split()
        self._connection.data_received(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        )

    async def say(self, line: bytes) -> bytes:
        """Send one command; return the reply when everything that follows from it is done."""
        self.send(line)
        await self._world.rest()
        return self.transport.take()


class World:
    """A broker on LevelDB, and a RESP server."""

    def __init__(self, recorder: Recorder, broker: Any, clock: Clock, loop: Loop) -> None:
        self.recorder = recorder
        self.broker = broker
        self.server = _class("RespServer")(broker, {})
        self._clock = clock
        self._loop = loop

    async def rest(self) -> None:
        """Wait until everything is done, the commits of settles included."""
        await self._loop.quiet()
        self._loop.seconds += SETTLE_SECONDS
        await self._loop.quiet()

    def advance(self, seconds: float) -> None:
        """Advance the clocks of the broker; the timers of the loop, which watch disk and rates, stay as they are."""
        self._clock.seconds += seconds

    async def recorded(self, act: Callable[[], object], *, waits: bool = True) -> list[Call]:
        """Return the calls of `act`, and with `waits` of everything that follows from it."""
        with self.recorder.recording() as calls:
            act()
            if waits:
                await self.rest()
        return calls


@asynccontextmanager
async def started_world(recorder: Recorder, folder: Path, loop: Loop) -> AsyncIterator[World]:
    """Yield a world; stop its broker at the end of the block."""
    clock = Clock()

    def open_store() -> Awaitable[Any]:
        return _class("LevelDBStore").open(folder)

    broker = _class("Broker")(open_store, clock=clock, period_seconds=1e6)
    await broker.start()
    world = World(recorder, broker, clock, loop)
    await world.rest()
    _let_age(folder)
    try:
        yield world
    finally:
        await broker.stop()


def _let_age(folder: Path) -> None:
    """Wait until no directory below `folder` is younger than `SETTLED_NS`."""
    directories = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    while time.time_ns() - max(directory.stat().st_mtime_ns for directory in directories) < SETTLED_NS:
        time.sleep(SETTLED_NS / 5e9)


def _class(name: str) -> Any:
    for address in ADDRESSES[name]:
        try:
            return getattr(import_module(address), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"no class {name} in {' or '.join(ADDRESSES[name])}")


# --- the paths ----------------------------------------------------------------------------------------------------

OK = b"+OK\r\n"


async def publish(world: World) -> list[Call]:
    """PUBLISH: from the bytes that are read to the open commit."""
    publisher = Client(world)
    await publisher.say(b"PUBLISH t warm")
    calls = await world.recorded(lambda: publisher.send(b"PUBLISH t hello"), waits=False)
    await world.rest()
    assert publisher.transport.take() == OK
    return calls


async def commit(world: World) -> list[Call]:
    """The commit of a message, to its +OK and to a consumer that waits for it."""
    publisher, consumer = Client(world), Client(world)
    await consumer.say(b"SUBSCRIBE t")
    await publisher.say(b"PUBLISH t warm")
    await consumer.say(b"ACK")
    publisher.send(b"PUBLISH t hello")
    consumer.transport.take()
    calls = await world.recorded(lambda: None)
    assert publisher.transport.take().endswith(OK)
    assert consumer.transport.take().endswith(b"hello\r\n")
    return calls


async def ack(world: World) -> list[Call]:
    """ACK of a receipt, to its +OK, which does not wait for the commit."""
    client = Client(world)
    await client.say(b"PUBLISH t warm")
    await client.say(b"PUBLISH t hello")
    warm, hello = [_receipt(await client.say(b"RECEIVE t")) for _ in range(2)]
    await client.say(b"ACK t " + warm)
    calls = await world.recorded(lambda: client.send(b"ACK t " + hello), waits=False)
    assert client.transport.take() == OK
    return calls


async def delayed(world: World) -> list[Call]:
    """A delayed message that comes due: from the tick to a consumer that waits for it.

    What else a tick calls is left out.
    """
    publisher, consumer = Client(world), Client(world)
    await consumer.say(b"SUBSCRIBE t")
    calls: list[Call] = []
    for payload in (b"warm", b"hello"):
        await publisher.say(b"PUB t %b DELAY %d" % (payload, DELAY_SECONDS))
        world.advance(DELAY_SECONDS)
        consumer.transport.take()
        calls = await world.recorded(world.broker.tick)
        assert consumer.transport.take().endswith(payload + b"\r\n")
        await consumer.say(b"ACK")
    return list(_without_other_ticks(calls))


def _without_other_ticks(calls: list[Call]) -> Iterator[Call]:
    is_tick = is_left_out = False
    for call in calls:
        if call.depth == 0:
            is_tick, is_left_out = call.function == "Broker.tick", False
        elif call.depth == 1 and is_tick:
            is_left_out = not Path(call.file).name.startswith("delay")
        if not is_left_out:
            yield call


async def disconnect(world: World) -> list[Call]:
    """A consumer that disconnects: until its message is back in the topic."""
    calls: list[Call] = []
    await Client(world).say(b"PUBLISH t hello")
    for _ in range(2):
        consumer = Client(world)
        assert (await consumer.say(b"SUBSCRIBE t")).endswith(b"hello\r\n")
        calls = await world.recorded(consumer.transport.lose, waits=False)
        await world.rest()
    return calls


def _receipt(reply: bytes) -> bytes:
    match = re.match(rb"\*1\r\n\*3\r\n\$\d+\r\n(\S+)\r\n", reply)
    assert match, reply
    return match[1]


PATHS = {path.__name__: path for path in (publish, commit, ack, delayed, disconnect)}


def walk(name: str) -> list[Call]:
    """Return the calls of a path, in a world of its own."""
    recorder = Recorder(str(_package()))
    loop = Loop(recorder)

    async def body() -> list[Call]:
        with tempfile.TemporaryDirectory(prefix="miniqueue-paths-") as folder:
            async with started_world(recorder, Path(folder) / "store", loop) as world:
                return await PATHS[name](world)

    others = sys.getprofile()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(body())
    finally:
        sys.setprofile(others)
        threading.setprofile(None)


def _package() -> Path:
    return Path(import_module("miniqueue").__file__ or "").resolve().parent


# --- the command --------------------------------------------------------------------------------------------------


def main() -> None:
    """Print the figures of all paths, or the calls of one."""
    args = _arguments()
    if args.path:
        print("\n".join(lines_of(walk(args.path))))
        return
    figures = {name: figures_of(walk(name)) for name in PATHS}
    if args.json:
        print(json.dumps({"package": str(_package()), "figures": figures}))
        return
    print("\n".join(table(figures, figures_at(args.before) if args.before else None)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.call_paths",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--path", choices=PATHS, help="print the calls of this path, indented")
    parser.add_argument("--before", metavar="COMMIT", help="print the figures of that commit as well")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args()


def lines_of(calls: list[Call]) -> list[str]:
    """Return a line for each call, with the file wherever it changes."""
    width = max(len(call.file) for call in calls)
    lines, current = [], ""
    for call in calls:
        file = call.file if call.file != current else ""
        thread = "" if call.thread == "MainThread" else f"  [{call.thread}]"
        lines.append(f"{file:{width}}  {'  ' * call.depth}{call.function}{thread}")
        current = call.file
    return lines


def table(figures: dict[str, Figures], before: dict[str, Figures] | None = None) -> list[str]:
    """Return the lines of a table of paths; with `before`, each figure as `earlier > present`."""
    rows = [["path", *Figures._fields]]
    for name, present in _with_sum(figures).items():
        cells = map(str, present)
        if before is not None:
            cells = (f"{was} > {now}" for was, now in zip(_with_sum(before)[name], present, strict=True))
        rows.append([name, *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _with_sum(figures: dict[str, Figures]) -> dict[str, Figures]:
    return {**figures, "sum": Figures(*map(sum, zip(*figures.values(), strict=True)))}


def figures_at(commit: str) -> dict[str, Figures]:
    """Return the figures of the package as it was at `commit`."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory(prefix="miniqueue-before-") as folder:
        archive = subprocess.run(
            ["git", "archive", "--format=tar", commit, "miniqueue"], cwd=root, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        # With -P the folder of this file does not count as one of modules.
        process = subprocess.run(
            [sys.executable, "-P", __file__, "--json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            check=True,
            capture_output=True,
        )
        measured = json.loads(process.stdout)
        assert measured["package"] == str(Path(folder).resolve() / "miniqueue"), "another package was measured"
    return {name: Figures(*figures) for name, figures in measured["figures"].items()}


if __name__ == "__main__":
    main()

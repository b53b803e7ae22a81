"""Signals before a broker is ready, or while a tool works: the process ends soon, and leaves nothing half done.

Each process waits for a FIFO, so that no test depends on the speed of the machine.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from miniqueue.storage.leveldb.shards import prepare_shards, stores_in
from miniqueue.storage.leveldb.view import viewed
from tests.acceptance.process import FREE_PORTS, SHARDS, STOP_SECONDS, environment, python_path
from tests.storage.leveldb.directories import fill, open_and_close

pytestmark = pytest.mark.acceptance

EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
#: Makes a Python wait before it imports a module, or opens a file, until the FIFO is closed.
HOLD = """
import os, sys
def hold(event, arguments, held=[]):
    if event == os.environ["HOLD_EVENT"] and str(arguments[0]).endswith(os.environ["HOLD_NAME"]) and not held:
        held.append(True)
        with open(os.environ["HOLD_FIFO"], "rb") as fifo:
            fifo.read()
sys.addaudithook(hold)
"""
MAIN = (sys.executable, "-m", "miniqueue")
#: Makes the command process 1 of its own namespace, where signals have no default action.
AS_PROCESS_1 = ("unshare", "--pid", "--fork", "--kill-child")


class Held:
    """A process that waits at a point of its startup; `release` lets it continue."""

    def __init__(
        self, tmp_path: Path, arguments: tuple[str, ...], event: str, name: str, wrapper: tuple[str, ...] = ()
    ) -> None:
        hooks, self._fifo = tmp_path / "hooks", tmp_path / "fifo"
        hooks.mkdir()
        (hooks / "sitecustomize.py").write_text(HOLD)
        os.mkfifo(self._fifo)
        variables = {
            "HOLD_EVENT": event,
            "HOLD_NAME": name,
            "HOLD_FIFO": str(self._fifo),
            "PYTHONPATH": python_path(hooks),
        }
        self.process = subprocess.Popen(
            [*wrapper, *MAIN, *arguments],
            cwd=tmp_path,
            env=environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._end = os.open(self._fifo, os.O_WRONLY)  # returns when the process has come to its other end
        self.pid = _only_child(self.process.pid) if wrapper else self.process.pid

    def release(self) -> None:
        os.close(self._end)

    def ended(self) -> tuple[int, str]:
        """Return the exit code and what was said."""
        _, said = self.process.communicate(timeout=STOP_SECONDS)
        return self.process.returncode, said


def _only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def has_handler(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal: as process 1, it gets no other signals."""
    (caught,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def can_be_process_1() -> bool:
    """Return whether this machine permits a namespace; if not, only the handler can be checked."""
    return subprocess.run([*AS_PROCESS_1, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def wrapper() -> tuple[str, ...]:
    return AS_PROCESS_1 if can_be_process_1() else ()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The store that a process waits for; with shards, that of one of them."""
    return filled_store(tmp_path / "store", int(SHARDS or 0))


def filled_store(path: Path, shard_count: int) -> Path:
    """Make a store, with shards if there are any; return its directory, with shards that of the last one."""
    if shard_count:
        prepare_shards(path, shard_count)
    stores = stores_in(path)
    for each in stores:
        fill(each, value_bytes=10)
        open_and_close(each)
    return stores[-1]


def marker_of(store: Path) -> str:
    """Return the end of the path of the marker of this store, and of no other."""
    return str(Path(*store.parts[store.parts.index("store") :], "miniqueue.format"))


IGNORED_IN_A_CHILD = """
import signal, subprocess
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
import tests.conftest
print(subprocess.check_output(["grep", "SigIgn", "/proc/self/status"], text=True).split()[1])
"""


def test_a_run_that_ignores_signals_starts_processes_that_do_not():
    """A run under nohup, or in the background of a shell, ignores signals; the other tests here failed there."""
    program = [sys.executable, "-c", IGNORED_IN_A_CHILD]
    done = subprocess.run(program, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    ignored = int(done.stdout, 16)
    assert not [number for number in EXIT_CODES if ignored >> (number - 1) & 1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["miniqueue.cli", "miniqueue.server.config.config", "plyvel"])
def test_process_1_ends_while_it_imports(tmp_path, wrapper, name, number):
    held = Held(tmp_path, (*FREE_PORTS, "-storage", "memory"), "import", name, wrapper)
    assert has_handler(held.pid, number)
    os.kill(held.pid, number)
    held.release()
    assert held.ended() == (EXIT_CODES[number], "")
    assert not (tmp_path / "certs").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_waits_for_its_store_ends_and_gives_it_back(tmp_path, wrapper, store, number):
    held = Held(tmp_path, (*FREE_PORTS, "-db", "store"), "open", marker_of(store), wrapper)
    os.kill(held.pid, number)
    held.release()
    code, said = held.ended()
    assert code == EXIT_CODES[number]
    assert "Traceback" not in said
    assert '"ready"' not in said
    with viewed(store) as view:
        assert list(view.pairs())


def test_sighup_during_a_start_reads_the_users_again_when_it_is_ready(tmp_path, wrapper, store):
    held = Held(tmp_path, (*FREE_PORTS, "-db", "store"), "open", marker_of(store), wrapper)
    os.kill(held.pid, signal.SIGHUP)
    held.release()
    assert held.process.stderr is not None
    said = ""
    while not all(words in said for words in ("there are no users to be read again", '"ready"')):
        line = held.process.stderr.readline()
        assert line, said
        said += line
    os.kill(held.pid, signal.SIGTERM)
    assert held.ended()[0] == 0


TOOLS = {
    "check": ("check", "-db", "store"),
    "backup": ("backup", "-db", "store", "made"),
    "restore": ("restore", "-db", "made", "store"),
    "export": ("export", "-db", "store", "-o", "made"),
}


@pytest.mark.parametrize("number", EXIT_CODES)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_ends_and_leaves_nothing_half_done(tmp_path, wrapper, store, tool, number):
    held = Held(tmp_path, TOOLS[tool], "open", "miniqueue.acknowledged", wrapper)
    before = sorted(path.name for path in tmp_path.iterdir())
    os.kill(held.pid, number)
    held.release()
    assert held.ended() == (EXIT_CODES[number], "")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("number", EXIT_CODES)
def test_a_backup_that_is_interrupted_while_it_writes_removes_what_it_made(tmp_path, wrapper, store, number):
    held = Held(tmp_path, TOOLS["backup"], "open", "miniqueue.format.unfinished", wrapper)
    assert [path for path in tmp_path.iterdir() if "unfinished" in path.name]
    os.kill(held.pid, number)
    held.release()
    assert held.ended() == (EXIT_CODES[number], "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "hooks", "store"]


@pytest.mark.parametrize("number", EXIT_CODES)
def test_an_import_that_is_interrupted_says_that_it_has_added_all_or_nothing(tmp_path, wrapper, store, number):
    held = Held(tmp_path, ("import", "-db", "store"), "open", "miniqueue.acknowledged", wrapper)
    os.kill(held.pid, number)
    held.release()
    lines = "all lines of each shard" if SHARDS else "all lines"
    text = f"miniqueue: import interrupted: either {lines} were imported, or none\n"
    assert held.ended() == (EXIT_CODES[number], text)
    with viewed(store) as view:
        assert list(view.pairs())

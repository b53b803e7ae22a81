"""The parent of a broker with shards: it binds the ports, and starts a process for each shard, again if one ends.

    parent ─ sockets ─ fork ─┬─▶ shard 0 ─ ready ─┐
                             ├─▶ shard 1 ─ ready ─┼─▶ "ready"
                             └─▶ …                ┘
    a shard ends    before all are ready: the others are stopped, and its exit code is that of the parent,
                    or that of the signal that interrupted the start
                    later: it is started again, at once, and then after longer and longer pauses
    SIGTERM, SIGINT to the parent: SIGTERM to each shard; none ends before consumers have settled what they hold in
                    any of them, or the time for that is over; once all have ended, the parent ends
    SIGHUP          to each shard; the reload is complete once all have reloaded, or ended
    the parent is killed: so are the shards

Processes are forked: the parent has no threads and no event loop, so that a child has the sockets,
the settings, and the modules at no cost, and a shard that ends later is started as the first one was, also from the one
file. All processes accept from the same sockets, so one that stands still keeps no client waiting that has connected
since. The sockets of the backs are the parent's, too: what connects while a shard is started again waits for it.

The parent serves nothing, and has no state that a shard would miss.
"""

import ctypes
import os
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import structlog

from miniqueue.errors import ConfigError

#: The pauses before a shard that has ended is started again; the last one is repeated.
PAUSES_SECONDS: Final = (0.0, 0.1, 0.3, 1.0)
#: A shard that has lived for so long is started at once when it ends.
SETTLED_SECONDS: Final = 10.0
#: How often the parent looks up, at least: for the watchdog of systemd.
LOOK_SECONDS: Final = 1.0
#: How many links wait to be accepted while a shard is started again.
BACKLOG: Final = 1024
#: What a child and its parent say to each other.
READY: Final = b"r"
SETTLED: Final = b"s"
RELOADED: Final = b"h"
GO: Final = b"g"
#: The exit code if a shard was killed before all were ready: that of an internal error.
FAILED: Final = 70
_PR_SET_PDEATHSIG: Final = 1
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_INTERRUPTED: Final = 128  # plus the number of the signal

log = structlog.get_logger()


@contextmanager
def backs(count: int) -> Iterator[tuple[list[Path], list[socket.socket]]]:
    """Yield the paths of the sockets of the backs, in a directory of their own, and the sockets, which listen.

    Raises ConfigError: they cannot be there.
    """
    owner = os.getpid()
    listeners: list[socket.socket] = []

    def remove(directory: Path) -> None:
        if os.getpid() == owner:  # not in a child
            for listener in listeners:
                listener.close()
            shutil.rmtree(directory, ignore_errors=True)

    with ExitStack() as made:
        try:
            directory = Path(tempfile.mkdtemp(prefix="miniqueue-"))
            made.callback(remove, directory)
            paths = [directory / f"shard-{number}" for number in range(count)]
            for path in paths:
                listener = socket.socket(socket.AF_UNIX)
                listeners.append(listener)
                listener.bind(str(path))
                listener.listen(BACKLOG)
                listener.setblocking(False)
        except OSError as exc:
            raise ConfigError([f"variable TMPDIR: the shards cannot have their sockets there: {exc}"]) from exc
        yield paths, listeners


class Role(NamedTuple):
    """What a child is.

    Attributes:
      number: the number of its shard.
      parent: the connection to the parent, which hears `READY`, `RELOADED`, and `SETTLED`, and says `GO` when all have
        settled.
    """

    number: int
    parent: socket.socket


class _Child:
    """The process of one shard."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.started_at = 0.0
        self.is_ready = self.is_settled = self.is_reloading = False
        self.failures = 0
        self.start_at = 0.0  # monotonic; when it is to be started
        self.socket: socket.socket | None = None


class Parent:
    """Starts and watches the processes.

    Args:
      count: how many shards there are.
      on_ready: called once, when all are ready.
      on_stop: called when a stop begins.
      reloading: returns a context that lasts as long as a reload.
      feed: called at least once a second from then on, for a watchdog.
    """

    def __init__(
        self,
        count: int,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
        reloading: Callable[[], AbstractContextManager[None]],
        feed: Callable[[], None],
    ) -> None:
        self._children = [_Child(number) for number in range(count)]
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._reloading = reloading
        self._reload = ExitStack()
        self._feed = feed
        self._was_ready = False
        self._is_stopping = False
        self._exit_code = 0
        self._signals: list[int] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> Role | int:
        """Run the processes; return the role in a child, and in the parent, once all have ended, the exit code."""
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        woken.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ)
        before = {number: signal.signal(number, self._note) for number in _HANDLED}
        before_fd = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        try:
            role = self._supervise(woken)
        finally:
            signal.set_wakeup_fd(before_fd)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            wake.close()
            woken.close()
        if role is not None:  # SIGHUP stays blocked until the child can reload
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_HANDLED} - {signal.SIGHUP})
        return self._exit_code if role is None else role

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _supervise(self, woken: socket.socket) -> Role | None:
        while True:
            for child in self._due():
                role = self._start(child)
                if role is not None:
                    return role
            if not any(child.pid for child in self._children) and self._is_stopping:
                return None
            for key, _ in self._selector.select(self._pause_seconds()):
                if key.fileobj is woken:
                    woken.recv(4096)
                else:
                    self._hear(key.data)
            self._react()
            if self._was_ready:
                self._feed()

    def _due(self) -> list[_Child]:
        now = time.monotonic()
        return [] if self._is_stopping else [each for each in self._children if not each.pid and each.start_at <= now]

    def _pause_seconds(self) -> float:
        now = time.monotonic()
        return min([LOOK_SECONDS, *(max(0.0, each.start_at - now) for each in self._children if not each.pid)])

    def _start(self, child: _Child) -> Role | None:
        """Fork; return the role in the child, None in the parent."""
        heard, said = socket.socketpair()
        parent_pid = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)  # what the child gets before it has handlers waits
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
            said.close()
            child.pid, child.started_at, child.socket = pid, time.monotonic(), heard
            child.is_ready = child.is_settled = child.is_reloading = False
            self._selector.register(heard, selectors.EVENT_READ, child)
            return None
        heard.close()
        os.setpgid(0, 0)  # Ctrl-C reaches the parent alone, which asks its children to stop
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # kill -9 ends the whole broker
        if os.getppid() != parent_pid:
            os.kill(os.getpid(), signal.SIGKILL)
        for other in self._children:
            if other.socket is not None:
                other.socket.close()
        said.setblocking(False)
        return Role(child.number, said)

    def _hear(self, child: _Child) -> None:
        assert child.socket is not None  # it is registered
        try:
            word = child.socket.recv(1)
        except ConnectionResetError:  # it has ended, and not read the last word
            word = b""
        if not word:
            self._close(child)
        elif word == READY:
            child.is_ready = True
            is_starting = not (self._was_ready or self._is_stopping)
            if is_starting and all(each.is_ready for each in self._children):
                self._was_ready = True
                self._on_ready()
        elif word == RELOADED:
            child.is_reloading = False
        else:
            child.is_settled = True
            self._let_go()

    def _let_go(self) -> None:
        """Say that all may end, once none waits any longer for consumers."""
        living = [each for each in self._children if each.pid]
        if self._is_stopping and all(each.is_settled for each in living):
            for each in living:
                if each.socket is not None:
                    with suppress(OSError):  # it has just ended
                        each.socket.send(GO)

    def _close(self, child: _Child) -> None:
        if child.socket is not None:
            self._selector.unregister(child.socket)
            child.socket.close()
            child.socket = None

    def _react(self) -> None:
        signals, self._signals = self._signals, []
        for number in signals:
            if number == signal.SIGHUP:
                self._begin_reload()
            elif number in (signal.SIGTERM, signal.SIGINT):
                if not self._is_stopping:
                    self._exit_code = 0 if self._was_ready else _INTERRUPTED + number
                    self._on_stop()
                self._is_stopping = True
                self._tell(signal.SIGTERM)
        self._reap()
        if not any(child.is_reloading for child in self._children):
            self._reload.close()

    def _begin_reload(self) -> None:
        """Ask each shard to reload, during a reload again."""
        if not any(child.is_reloading for child in self._children):
            self._reload.enter_context(self._reloading())
        for child in self._children:
            child.is_reloading = bool(child.pid)
        self._tell(signal.SIGHUP)

    def _tell(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.pid:
                os.kill(child.pid, number)

    def _reap(self) -> None:
        for child in self._children:
            if not child.pid:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            self._close(child)
            child.pid, child.is_reloading = 0, False
            self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, code: int) -> None:
        if self._is_stopping:
            self._exit_code = self._exit_code or max(code, 0)
            self._let_go()
            return
        if not self._was_ready:
            self._is_stopping, self._exit_code = True, code if code > 0 else FAILED
            self._tell(signal.SIGTERM)
            return
        lived_seconds = time.monotonic() - child.started_at
        child.failures = 0 if lived_seconds >= SETTLED_SECONDS else child.failures + 1
        pause_seconds = PAUSES_SECONDS[min(child.failures, len(PAUSES_SECONDS) - 1)]
        child.start_at = time.monotonic() + pause_seconds
        log.error("a shard ended and is started again", shard=child.number, exit_code=code, pause_seconds=pause_seconds)

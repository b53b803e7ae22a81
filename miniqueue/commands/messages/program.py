"""Runs a program for a message: the payload is its standard input, attributes are in its environment.

    MESSAGE_TOPIC MESSAGE_ID MESSAGE_KEY MESSAGE_PUBLISHED_AT_MS MESSAGE_DELIVERIES
    MESSAGE_HEADER_<NAME>      a header, in capitals, with _ for what is no letter or digit
    MESSAGE_HEADERS            all headers as JSON: pairs of a name and a value

The names do not begin with MINIQUEUE_, since such variables are settings of a broker. The program is in a process group
of its own, so that Ctrl-C on the terminal ends it only when `sub` says so.
"""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from miniqueue_client import Message

_NO_NAME: Final = re.compile(r"[^A-Z0-9]")


class Ended(NamedTuple):
    """How a program has ended.

    Attributes:
      failure: "" if its exit code was 0; else what happened, such as `exit code 3`.
      output: what it has written to its standard output, if that was asked for.
    """

    failure: str
    output: bytes


class Programs:
    """The programs that run, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._must_end = False

    @contextmanager
    def started(self, process: "subprocess.Popen[bytes]") -> Iterator[None]:
        """Know a program while the block runs; if the block raises, ask it and all that it runs to end."""
        with self._lock:
            self._running.add(process)
            if self._must_end:
                _end(process)
        try:
            yield
        except BaseException:
            _end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)

    def end(self) -> None:
        """Ask all programs, and all that they run, to end; also those that are just being started."""
        with self._lock:
            self._must_end = True
            for process in self._running:
                _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.killpg(process.pid, signal.SIGTERM)


def run_program(
    words: Sequence[str],
    message: Message,
    environ: Mapping[str, str],
    programs: Programs,
    *,
    keeps_output: bool,
    every_seconds: float,
    tick: Callable[[], None],
) -> Ended:
    """Run a program for a message, and wait for its end.

    Args:
      words: the program and its arguments.
      message: the message.
      environ: environment variables, to which those of the message are added.
      programs: the programs that run.
      keeps_output: whether to return its standard output.
      every_seconds: how often to call `tick`.
      tick: called while it runs, such as to extend the lease.

    If an exception arrives, such as a second Ctrl-C, the program and all that it runs are asked to end. Raises OSError
    if it cannot start.
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if keeps_output else None,
        env={**environ, **variables_of(message)},
        process_group=0,
    ) as process:
        with programs.started(process):
            output = _communicate(process, message.payload, every_seconds, tick)
        return Ended(_failure_of(process.returncode), output)


def variables_of(message: Message) -> dict[str, str]:
    """Return the environment variables of a message; a value with a NUL, which no variable can have, is left out."""
    headers = [[name, _text(value)] for name, value in message.headers]
    values = {
        "TOPIC": message.topic,
        "ID": message.id,
        "KEY": _text(message.key),
        "PUBLISHED_AT_MS": str(message.published_at_ms),
        "DELIVERIES": str(message.deliveries),
        "HEADERS": json.dumps(headers, ensure_ascii=True),
        **{f"HEADER_{_NO_NAME.sub('_', name.upper())}": value for name, value in reversed(headers)},
    }
    return {f"MESSAGE_{name}": value for name, value in values.items() if "\0" not in value}


def _communicate(
    process: "subprocess.Popen[bytes]", payload: bytes, every_seconds: float, tick: Callable[[], None]
) -> bytes:
    content: bytes | None = payload
    while True:
        try:
            output, _ = process.communicate(content, timeout=every_seconds)
            return output or b""
        except subprocess.TimeoutExpired:
            content = None  # `communicate` goes on with what it has
            tick()


def _text(content: bytes) -> str:
    """Return bytes as the environment has them."""
    return os.fsdecode(content)


def _failure_of(code: int) -> str:
    if code >= 0:
        return f"exit code {code}" if code else ""
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a signal without a name
        return f"killed by signal {-code}"

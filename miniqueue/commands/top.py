"""`miniqueue top`: rates, lag, age, and dead letters of topics, refreshed on a terminal."""

import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Final

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.columns import Column, cells_of, rich_table
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import counted, shown_age, shown_rate
from miniqueue.commands.shell.values import POSITIVE_DURATION, Choice, whole_number
from miniqueue.commands.watching.rows import ORDERS, Row, ranked
from miniqueue.commands.watching.sampling import Sampler
from miniqueue.commands.watching.view import HELP, View, page_count, pressed, within
from miniqueue.errors import ClientError
from miniqueue.server.process.escaping import escape

_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("lag", "lag", is_number=True),
    Column("ready", "ready", is_number=True),
    Column("leased", "leased", is_number=True),
    Column("delayed", "delayed", is_number=True),
    Column("dead", "dead", is_number=True),
    Column("oldest", "oldest_seconds", shown_age, is_number=True),
    Column("in/s", "in_per_second", shown_rate, is_number=True),
    Column("out/s", "out_per_second", shown_rate, is_number=True),
    Column("consumers", "consumers", is_number=True),
)
#: Lines of the screen that are no rows: the head, the titles and their line, and the last one.
_OTHER_LINES: Final = 5


@flags.command(epilog="Example: miniqueue top 'orders.*' --sort oldest")
@flags.argument("pattern", default="*")
@flags.flag("--sort", type=Choice(list(ORDERS)), default="lag", show_default=True, help="What comes first.")
@flags.flag("--reverse", is_flag=True, help="Reverse the order.")
@flags.flag("--rows", type=whole_number(1, 1 << 31), help="Maximum number of topics. Default: all, or the screen.")
@flags.flag("--interval", type=POSITIVE_DURATION, default=2.0, help="Time between two refreshes.  [default: 2s]")
@flags.flag("--once", is_flag=True, help="Print once, and end.")
@with_output
@connected
def command(client: BrokerClient, pattern: str, output: Output, **choices: Any) -> None:  # noqa: ANN401 - values of flags
    """Show what topics that match PATTERN are doing, again and again, until q or Ctrl-C.

    Keys sort by lag (l), topic (t), dead letters (d), age of the oldest message (a), and by messages published (i) and
    acknowledged (o) a second, over 10 s; the same key again reverses the order. n and p turn pages. In a pipe,
    everything is printed at each refresh.
    """
    sampler = Sampler(client, lambda topic: fnmatchcase(topic, pattern))
    view = View(choices["sort"], choices["reverse"])
    if output.is_terminal and output.form == "table" and not choices["once"]:
        _watch(sampler, view, choices, str(client.address))
        return
    while True:
        sampler.refresh_all()
        rows = ranked(sampler.rows(), view.order, is_reversed=view.is_reversed)
        output.rows(_COLUMNS, rows[: choices["rows"]], empty="There are no topics.")
        if choices["once"]:
            return
        time.sleep(choices["interval"])
        if output.form == "table":
            output.write("\n")


def _watch(sampler: Sampler, view: View, choices: dict[str, Any], address: str) -> None:
    """Show pages on the terminal until a person quits."""
    from rich.console import Console  # noqa: PLC0415 - only for a terminal
    from rich.live import Live  # noqa: PLC0415 - only for a terminal
    from rich.text import Text  # noqa: PLC0415 - only for a terminal

    shown: list[str] = []
    with _keys() as next_key, Live(console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            problem = ""
            try:
                sampler.refresh(shown)
            except ClientError as exc:
                problem = escape(str(exc))
            refresh_at = time.monotonic() + choices["interval"]
            while True:
                page_rows = choices["rows"] or max(1, shutil.get_terminal_size().lines - _OTHER_LINES)
                view = within(view, page_count(len(sampler.topics), page_rows))
                rows = _page(sampler, view, page_rows)
                shown = [row["topic"] for row in rows]
                screen = _head(sampler, view, page_rows, address) + "\n" + _table(rows) + "\n" + problem
                live.update(Text.from_ansi(screen), refresh=True)
                key = next_key(refresh_at - time.monotonic())
                if key is None:
                    break
                if (changed := pressed(view, key)) is None:
                    return
                view = changed


def _page(sampler: Sampler, view: View, page_rows: int) -> Sequence[Row]:
    rows = ranked(sampler.rows(), view.order, is_reversed=view.is_reversed)
    return rows[view.page * page_rows : (view.page + 1) * page_rows]


def _head(sampler: Sampler, view: View, page_rows: int, address: str) -> str:
    count = len(sampler.topics)
    at = time.strftime("%H:%M:%SZ", time.gmtime())
    order = f"by {view.order}{', reversed' if view.is_reversed else ''}"
    page = f"page {view.page + 1} of {page_count(count, page_rows)}"
    return f"{address} · {at} · {counted(count, 'topic')} {order} · {page} · {HELP}"


def _table(rows: Sequence[Row]) -> str:
    return rich_table(_COLUMNS, [cells_of(_COLUMNS, row) for row in rows])


@contextmanager
def _keys() -> Iterator[Any]:
    """Read single keys while the block runs; yields a function that waits for one, at most some seconds, else None."""
    import termios  # noqa: PLC0415 - only for a terminal
    import tty  # noqa: PLC0415 - only for a terminal

    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(max(0.0, seconds))
        return
    descriptor = sys.stdin.fileno()

    def next_key(seconds: float) -> str | None:
        if not select.select([descriptor], [], [], max(0.0, seconds))[0]:
            return None
        return _key_of(lambda: os.read(descriptor, 1), lambda: bool(select.select([descriptor], [], [], 0)[0]))

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)  # what was typed before counts, too
        yield next_key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _key_of(read: Callable[[], bytes], is_ready: Callable[[], bool]) -> str:
    """Read one key: a byte, or the sequence of an arrow and the like; `q` at the end of the terminal."""
    key = read() or b"q"
    if key == b"\x1b" and is_ready():
        key += read()
        while key[-1:] in b"[;0123456789" and is_ready():
            key += read()
    return key.decode("utf-8", "replace")

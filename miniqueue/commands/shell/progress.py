"""How far long work is: a bar on a terminal, on standard error; nothing in a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(
    title: str, total: int | None = None, unit: str = "messages", *, is_wanted: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; the block calls what it gets with each number of units that are done.

    Args:
      title: what is done, such as `publishing`.
      total: number of units in all; None: not known, so that only the number is shown.
      unit: what is counted.
      is_wanted: whether to show it; not if the output goes to the same terminal.
    """
    if not is_wanted or not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console  # noqa: PLC0415 - only for a terminal
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - only for a terminal

    counted = "{task.completed:,.0f} of {task.total:,.0f}" if total is not None else "{task.completed:,.0f}"
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn(f"{counted} {unit}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)

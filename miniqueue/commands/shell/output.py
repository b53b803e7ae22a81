"""Output of commands: a table for people, or JSON or JSON lines for programs, by the flag -o.

    table    on a terminal with Rich; in a pipe plain columns, without colors, and never cut
    json     one value: an array of objects, or an object
    jsonl    an object on each line

Everything is UTF-8, whatever the locale says. A reader that ends early, such as `head`, ends the command in order.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, TypeVar

import click

from miniqueue.commands.shell.columns import Column, cells_of, plain_line, plain_table, rich_table, shown, widths_of
from miniqueue.commands.shell.flags import flag
from miniqueue.commands.shell.values import Choice

F = TypeVar("F", bound=Callable[..., Any])
Form = Literal["table", "json", "jsonl"]

#: Rows after which a long table is written, so that it need not be in memory as a whole.
_PAGE_ROWS = 1000
#: Endings of the names of members that have a unit, and what is measured by it.
_UNITS = MappingProxyType({"_at_ms": "time", "_ms": "time", "_seconds": "age", "_bytes": "size"})


class Output:
    """Where a command writes, and in which form.

    Args:
      form: the form.
      stream: the stream; None: standard output.
      is_terminal: whether a person reads it; None: whether the stream is a terminal.
    """

    def __init__(self, form: Form = "table", stream: BinaryIO | None = None, is_terminal: bool | None = None) -> None:
        self.form = form
        self._stream = sys.stdout.buffer if stream is None else stream
        self.is_terminal = sys.stdout.isatty() if is_terminal is None else is_terminal

    def rows(self, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], empty: str = "") -> None:
        """Write rows.

        Args:
          columns: the columns of the table; JSON contains all members of the rows.
          rows: the rows.
          empty: what a terminal shows instead of a table without rows.
        """
        if self.form == "json":
            self._json_array(rows)
        elif self.form == "jsonl":
            for row in rows:
                self.write(_json(row) + "\n")
        else:
            self._table(columns, rows, empty)

    def record(self, members: Mapping[str, Any], shows: Mapping[str, Callable[[Any], str]] | None = None) -> None:
        """Write one object: as a table, its members are below each other.

        Args:
          members: the object.
          shows: returns the texts of members, by name; a text has its unit, so that the title has none.
        """
        if self.form != "table":
            is_one_line = self.form == "jsonl"
            self.write((_json(members) if is_one_line else json.dumps(members, ensure_ascii=False, indent=2)) + "\n")
            return
        lines = [
            (_title(name, members) if show else name.replace("_", " "), (show or shown)(value))
            for name, value in members.items()
            for show in [(shows or {}).get(name)]
        ]
        columns = [Column("", "name"), Column("", "value")]
        if self.is_terminal:
            self.write(rich_table(columns, lines, has_header=False))
        else:
            widths = [max((len(name) for name, _ in lines), default=0), 0]
            self.write("".join(plain_line(columns, widths, line) for line in lines))

    def done(self, text: str, members: Mapping[str, Any]) -> None:
        """Write what has been done: a line of text, or an object."""
        self.write(f"{text}\n" if self.form == "table" else _json(members) + "\n")

    def objects(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Write an object on each line, whichever of the two forms for programs it is: for what has no end."""
        self.write("".join(_json(each) + "\n" for each in members))

    def write(self, text: str) -> None:
        """Write a text as UTF-8, now."""
        self.write_bytes(text.encode("utf-8", "backslashreplace"))

    def write_bytes(self, content: bytes) -> None:
        """Write bytes, now."""
        self._stream.write(content)
        self._stream.flush()

    def _json_array(self, rows: Iterable[Mapping[str, Any]]) -> None:
        separator = "["
        for row in rows:
            self.write(f"{separator}\n  {_json(row)}")
            separator = ","
        self.write("[]\n" if separator == "[" else "\n]\n")

    def _table(self, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], empty: str) -> None:
        iterator = iter(rows)
        lines = [cells_of(columns, row) for row in islice(iterator, _PAGE_ROWS)]
        if self.is_terminal:
            lines = list(chain(lines, (cells_of(columns, row) for row in iterator)))
            self.write(rich_table(columns, lines) if lines else f"{empty}\n" if empty else "")
            return
        self.write(plain_table(columns, lines))
        widths = widths_of(columns, lines)
        for row in iterator:
            self.write(plain_line(columns, widths, cells_of(columns, row)))


def with_output(function: F) -> F:
    """Add the flag -o; the parameter `output` is an `Output`."""
    return flag(
        "-o",
        "--output",
        "output",
        type=Choice(["table", "json", "jsonl"]),
        default="table",
        show_default=True,
        callback=_output_of,
        help="Form of the output.",
    )(function)


def _output_of(_ctx: click.Context, _param: click.Parameter, form: Form) -> Output:
    return Output(form)


def _title(name: str, members: Mapping[str, Any]) -> str:
    """Return the title of a member without its unit; with a noun instead if another member has that title."""
    for unit, noun in _UNITS.items():
        if name.endswith(unit):
            rest = name.removesuffix(unit)
            return (f"{rest} {noun}" if rest in members else rest).replace("_", " ")
    return name.replace("_", " ")


def _json(members: Mapping[str, Any]) -> str:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))

"""Tables as text: plain columns in a pipe, with Rich on a terminal.

    topic   ready  leased          a header, and columns that are two spaces apart and as wide as their widest cell;
    orders     12       0          numbers are aligned to the right

Cells are escaped: a topic, a key, or a payload is foreign text. Rich, which takes a moment to import, is imported only
for a terminal.
"""

import io
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final, Literal

from miniqueue.server.process.escaping import escape

#: Of a table on a terminal: blanks between columns, if there is room and if there is not; least width of a title of
#: numbers, and of a column of texts.
_WIDE_GAP: Final = 3
_NARROW_GAP: Final = 2
_TITLE_WIDTH: Final = 5
_TEXT_WIDTH: Final = 8


def shown(value: Any) -> str:  # noqa: ANN401 - a value of JSON
    """Return a value as a cell."""
    match value:
        case None | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(shown, value)) or "–"
        case _:
            return escape(str(value))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
      title: its header.
      member: the member of a row that it shows; "": it shows the row.
      show: returns the text of the member.
      is_number: whether it is aligned to the right.
    """

    title: str
    member: str
    show: Callable[[Any], str] = shown
    is_number: bool = False


def cells_of(columns: Sequence[Column], row: Mapping[str, Any]) -> list[str]:
    """Return the texts of a row."""
    return [column.show(row.get(column.member) if column.member else row) for column in columns]


def plain_table(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> str:
    """Return a table for a pipe."""
    titles = [column.title for column in columns]
    widths = widths_of(columns, lines)
    return "".join(plain_line(columns, widths, line) for line in (titles, *lines))


def widths_of(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column: that of its widest cell, or title."""
    titles = [column.title for column in columns]
    return [max(len(line[index]) for line in (titles, *lines)) for index in range(len(columns))]


def plain_line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    """Return one line of a table for a pipe."""
    aligned = [
        cell.rjust(width) if column.is_number else cell.ljust(width)
        for column, width, cell in zip(columns, widths, cells, strict=True)
    ]
    return "  ".join(aligned).rstrip() + "\n"


def rich_table(columns: Sequence[Column], lines: Sequence[Sequence[str]], *, has_header: bool = True) -> str:
    """Return a table for a terminal, as wide as the terminal at most.

    Text is folded, numbers never, since a part of a number is another number. If there is no room for that, each row is
    a block of lines.
    """
    from rich import box  # noqa: PLC0415 - only for a terminal
    from rich.table import Table  # noqa: PLC0415 - only for a terminal
    from rich.text import Text  # noqa: PLC0415 - only for a terminal

    if has_header and _narrowest(columns, lines) > terminal_width():
        return "\n".join(_block(columns, line) for line in lines)
    padding = (0, 1) if _is_wide_enough(columns, lines) else (0, 1, 0, 0)
    table = Table(
        box=box.SIMPLE_HEAD,
        show_header=has_header,
        header_style="bold",
        pad_edge=False,
        show_edge=False,
        padding=padding,
    )
    for column, title in zip(columns, _titles(columns, lines), strict=True):
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=column.is_number)
    for line in lines:
        table.add_row(*map(Text, line))
    return rendered(table)


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def _is_wide_enough(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> bool:
    return sum(widths_of(columns, lines)) + _WIDE_GAP * (len(columns) - 1) <= terminal_width()


def _titles(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the titles; those of numbers folded if the table is too wide otherwise, between words if possible."""
    titles = [column.title for column in columns]
    if _is_wide_enough(columns, lines):
        return titles
    widths = _narrowed(columns, lines)
    return [
        "\n".join(wrap(title, width)) if column.is_number else title
        for column, title, width in zip(columns, titles, widths, strict=True)
    ]


def _narrowed(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> list[int]:
    """Return widths with which the table fits the terminal: the longest words are folded first."""
    least = _least_widths(columns, lines)
    widths = [
        max(width, _longest_word(column)) if column.is_number else width
        for column, width in zip(columns, least, strict=True)
    ]
    gaps = _NARROW_GAP * (len(columns) - 1)
    while sum(widths) + gaps > terminal_width() and widths != least:
        widest = max(range(len(widths)), key=lambda index: widths[index] - least[index])
        widths[widest] -= 1
    return widths


def _longest_word(column: Column) -> int:
    return max(map(len, column.title.split()), default=0)


def _least_widths(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the width that each column requires: a number as it is, a text that of a short word."""
    widths = [max((len(line[index]) for line in lines), default=0) for index in range(len(columns))]
    return [
        max(width, min(_longest_word(column), _TITLE_WIDTH))
        if column.is_number
        else min(max(width, len(column.title)), _TEXT_WIDTH)
        for column, width in zip(columns, widths, strict=True)
    ]


def _narrowest(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> int:
    return sum(_least_widths(columns, lines)) + _NARROW_GAP * (len(columns) - 1)


def _block(columns: Sequence[Column], cells: Sequence[str]) -> str:
    """Return a row as lines, each with a title and a cell."""
    width = max(len(column.title) for column in columns)
    return "".join(f"{column.title.ljust(width)}  {cell}\n" for column, cell in zip(columns, cells, strict=True))


def rendered(renderable: Any) -> str:  # noqa: ANN401 - whatever Rich renders
    """Return what Rich draws on this terminal, as plain text if NO_COLOR is set or the terminal has no colors."""
    from rich.console import Console  # noqa: PLC0415 - only for a terminal

    drawn = io.StringIO()
    # By itself, Rich writes bold text even if NO_COLOR is set.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    Console(file=drawn, force_terminal=True, width=terminal_width(), color_system=colors).print(renderable)
    return "".join(line.rstrip() + "\n" for line in drawn.getvalue().splitlines())

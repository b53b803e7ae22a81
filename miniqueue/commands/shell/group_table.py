"""Groups as rows of a table."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final

from miniqueue.commands.shell.columns import Column
from miniqueue_client import Group

_COUNTS: Final = ("lag", "ready", "leased", "delayed", "acknowledged", "moved", "missed", "consumers")
#: Titles with which the table fits a terminal of 80 columns.
_SHORT_TITLES: Final = MappingProxyType({"acknowledged": "acked"})
GROUP_COLUMNS: Final = (
    Column("group", "name"),
    *(Column(_SHORT_TITLES.get(name, name), name, is_number=True) for name in _COUNTS),
    Column("paused", "paused"),
)


def group_rows(groups: Iterable[Group]) -> Iterator[dict[str, Any]]:
    """Yield a row for each group."""
    return map(asdict, groups)

"""Tables of the documents that are made from rows of the code: `python -m tests.meta.tables` writes them.

    row in the code ─▶ Markdown table ─▶ takes the place of the table with the same head in the document

`python -m tests.meta.tables settings` prints one table instead. A test compares the documents with the rows.
"""

import re
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from miniqueue.core.settings import quotas
from miniqueue.core.settings.settings import DEFAULTS, FIELDS, text_of
from miniqueue.server.monitor.metrics import ROWS
from miniqueue.server.monitor.topic_metrics import FAMILIES, GROUP_FAMILIES, PARTITION_FAMILY
from miniqueue.server.resp.refusals import REFUSAL_ROWS
from tests.meta.modules import ROOT


class Table(NamedTuple):
    """A table, in the document at `path` below the root."""

    path: str
    make: Callable[[], str]


def settings_table() -> str:
    """Return the table of the settings of topics."""
    rows = [
        (f"`{name}`", field.allowed, field.unset or f"`{text_of(DEFAULTS[name])}`", field.text)
        for name, field in FIELDS.items()
    ]
    return _table(("setting", "value", "default", "meaning"), rows)


def quotas_table() -> str:
    """Return the table of the quotas of a user."""
    rows = [(f"`{name}`", field.allowed, field.text) for name, field in quotas.FIELDS.items()]
    return _table(("quota", "value", "limits"), rows)


def metrics_table() -> str:
    """Return the table of the metrics, those of topics first."""
    families = [
        (f"`miniqueue_{row.name}{_braces(row.labels)}`", row.kind, f"{row.help} {row.note}".rstrip())
        for row in (*FAMILIES, *GROUP_FAMILIES, PARTITION_FAMILY, *ROWS, *REFUSAL_ROWS)
    ]
    process = ("`process_…`", "", "Those of the Prometheus client library, in seconds and bytes.")
    return _table(("metric", "type", "meaning"), [*families, process])


def _braces(labels: tuple[str, ...]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


TABLES = {
    "settings": Table("docs/protocol.md", settings_table),
    "quotas": Table("docs/security.md", quotas_table),
    "metrics": Table("docs/protocol.md", metrics_table),
}


def replaced(document: str, table: str) -> str:
    """Return a document with `table` in place of the one that has the same head; raises ValueError if there is none."""
    head = table.partition("\n")[0]
    text, count = re.subn(rf"^{re.escape(head)}\n(?:\|.*\n)*", lambda _: table, document, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{count} tables begin with {head}")
    return text


def main(names: list[str]) -> None:
    """Print the tables that are named, or write all of them into their documents."""
    for name in names:
        print(TABLES[name].make(), end="")
    for table in [] if names else TABLES.values():
        path = ROOT / table.path
        path.write_text(replaced(path.read_text(), table.make()))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    first, *others = (f"| {' | '.join(cells)} |\n" for cells in (head, *rows))
    return "".join([first, "|" + "---|" * len(head) + "\n", *others])


if __name__ == "__main__":
    main(sys.argv[1:])

"""`miniqueue usage`: what users have of topics, bytes, and connections, and what they may have."""

from collections.abc import Iterator
from typing import Any, Final

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.columns import Column, shown
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import shown_bytes

_COLUMNS: Final = (
    Column("user", "user"),
    Column("of", "of"),
    Column("used", "", lambda row: _shown(row, "used"), is_number=True),
    Column("limit", "", lambda row: _shown(row, "limit"), is_number=True),
)


def _shown(row: dict[str, Any], member: str) -> str:
    value = row[member]
    return shown_bytes(value) if value is not None and "bytes" in row["of"] else shown(value)


@flags.command()
@with_output
@connected
def command(client: BrokerClient, output: Output) -> None:
    """Show what the user has, and may have; a user who may monitor everything sees all users.

    Rows without a user are all clients together.
    """
    output.rows(_COLUMNS, _rows(client))


def _rows(client: BrokerClient) -> Iterator[dict[str, Any]]:
    for usage in client.usage():
        for name, value in usage.items():
            if isinstance(value, dict) and value.keys() >= {"used", "limit"}:
                yield {"user": usage["user"], "of": name, "used": value["used"], "limit": value["limit"]}

"""`miniqueue topics`: lists topics, with what waits in them."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import shown_age, shown_rate
from miniqueue.server.process.escaping import escape
from miniqueue_client import RefusedError
from miniqueue_client.calls import topics as topic_calls
from miniqueue_client.calls.call import Call

#: Topics whose statistics are asked for at a time.
_PAGE: Final = 500
#: Refusals that concern one topic: it was deleted meanwhile, or the user may not see its statistics.
_OF_ONE_TOPIC: Final = frozenset({"NOTOPIC", "NOPERM"})
_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("ready", "ready", is_number=True),
    Column("leased", "leased", is_number=True),
    Column("delayed", "delayed", is_number=True),
    Column("consumers", "consumers", is_number=True),
    Column("oldest", "oldest_seconds", shown_age, is_number=True),
    Column("in/s", "publish_rate_10s", shown_rate, is_number=True),
    Column("out/s", "ack_rate_10s", shown_rate, is_number=True),
)


@flags.command(epilog="Example: miniqueue topics 'orders.*'")
@flags.argument("pattern", default="*")
@flags.flag("--names", is_flag=True, help="Print only the names, one on each line.")
@with_output
@connected
def command(client: BrokerClient, pattern: str, names: bool, output: Output) -> None:
    """List topics whose names match PATTERN, in which * stands for any text; by default all.

    If the broker has users, only topics for which the user has a role are listed. A topic for which the user may not
    see statistics has none.
    """
    listed = [topic for topic in client.topics() if fnmatchcase(topic, pattern)]
    if names and output.form == "table":
        names_shown = map(escape, listed) if output.is_terminal else listed
        output.write("".join(f"{topic}\n" for topic in names_shown))
        return
    rows: Iterator[dict[str, Any]] = ({"topic": name} for name in listed) if names else _rows(client, listed)
    output.rows(_COLUMNS, rows, empty="There are no topics. Publish to create one: miniqueue pub orders 'hello'")


def _rows(client: BrokerClient, listed: Sequence[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(listed), _PAGE):
        page = listed[start : start + _PAGE]
        calls: list[Call[Any]] = [topic_calls.stats(topic) for topic in page]
        for topic, stats in zip(page, client.execute_all(calls), strict=True):
            if isinstance(stats, RefusedError) and stats.code not in _OF_ONE_TOPIC:
                raise stats
            if not isinstance(stats, RefusedError):
                yield {"topic": topic, **stats}
            elif stats.code == "NOPERM":
                yield {"topic": topic}

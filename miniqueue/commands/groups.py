"""`miniqueue groups`: lists the groups of a topic."""

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.group_table import GROUP_COLUMNS, group_rows
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.topic_names import TOPIC


@flags.command(epilog="Example: miniqueue groups orders")
@flags.argument("topic", type=TOPIC)
@with_output
@connected
def command(client: BrokerClient, topic: str, output: Output) -> None:
    """List the groups that read TOPIC: how far each is behind, and what it has done."""
    output.rows(GROUP_COLUMNS, group_rows(client.groups(topic)))

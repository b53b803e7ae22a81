"""`miniqueue stats`: the statistics of a topic, or the sums of all topics."""

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.statistics import SHOWS
from miniqueue.commands.shell.topic_names import TOPIC


@flags.command(epilog="Examples: miniqueue stats · miniqueue stats orders -o json")
@flags.argument("topic", type=TOPIC, required=False)
@with_output
@connected
def command(client: BrokerClient, topic: str | None, output: Output) -> None:
    """Show the statistics of TOPIC, or the sums over all topics; docs/protocol.md explains each."""
    named = {} if topic is None else {"topic": topic}
    output.record({**named, **client.stats(topic)}, SHOWS)

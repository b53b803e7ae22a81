"""The command line for people: publish, consume, and inspect messages, and change topics, on a running broker.

Everything here is a client: what a command can do, a program can do with `miniqueue_client`. `COMMANDS` names a module
for each command, which is imported only when the command runs, so that a broker and the tools of an operator start
without Click, Rich, and redis-py. Of the server, this package uses only the settings that say where the broker on this
machine is, and how foreign text is shown. Only `cli` imports this package. Read in this order:

    shell/       what all commands share: flags, contexts, connections, output, questions
    program      runs a command, and completes words for shells
    topics       an example of a command
    applying/, copying/, measuring/, watching/    what `apply`, `copy`, `bench`, and `top` do, without the command line
    stored/      messages from backups and exports, for `tail`
"""

from types import MappingProxyType
from typing import NamedTuple


class Entry(NamedTuple):
    """A command.

    Attributes:
      summary: one line for the usage.
      module: module with `command`, which is the command of Click; imported only when it is used.
    """

    summary: str
    module: str


COMMANDS = MappingProxyType(
    {
        "pub": Entry("publish messages", "miniqueue.commands.messages.pub"),
        "sub": Entry("print messages or run a program for each; acknowledge them", "miniqueue.commands.messages.sub"),
        "tail": Entry("follow the messages of a topic, without consuming them", "miniqueue.commands.messages.tail"),
        "peek": Entry("show messages that wait, or are leased, delayed, or dead", "miniqueue.commands.messages.peek"),
        "trace": Entry("print what happened to a message", "miniqueue.commands.messages.trace"),
        "topics": Entry("list topics", "miniqueue.commands.topics"),
        "topic": Entry("create, show, change, pause, purge, and delete a topic", "miniqueue.commands.topic"),
        "groups": Entry("list the groups of a topic", "miniqueue.commands.groups"),
        "group": Entry("create, move, pause, and delete a group", "miniqueue.commands.group"),
        "dlq": Entry("list, show, redrive, and drop dead letters", "miniqueue.commands.dlq"),
        "delayed": Entry("list delayed messages, make them due, cancel them", "miniqueue.commands.delayed"),
        "schedule": Entry("set, list, fire, and delete schedules", "miniqueue.commands.schedule"),
        "stats": Entry("show statistics of a topic, or of all", "miniqueue.commands.stats"),
        "usage": Entry("show what users have, and may have", "miniqueue.commands.usage"),
        "apply": Entry("make topics, groups, and schedules what a file describes", "miniqueue.commands.apply"),
        "bench": Entry("measure how fast a broker is", "miniqueue.commands.bench"),
        "copy": Entry("copy topics from one broker to another", "miniqueue.commands.copy"),
        "top": Entry("watch rates, lag, and dead letters of topics", "miniqueue.commands.top"),
        "context": Entry("name brokers, and choose one", "miniqueue.commands.context"),
        "ping": Entry("check that a broker replies, and how fast", "miniqueue.commands.ping"),
        "completion": Entry("print the completion for a shell", "miniqueue.commands.completion"),
    }
)

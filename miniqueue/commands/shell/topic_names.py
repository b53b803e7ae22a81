"""The type of the names of topics, which a shell completes: it asks the broker for them.

A shell inserts a completion as it is, so that the name `$(reboot)`, which any publisher can choose, would be a command.
Only names that mean themselves in every shell are offered; any other is typed, in quotes.
"""

import re
from typing import Any, Final

import click

from miniqueue.commands.shell.connecting import Choice, client_of
from miniqueue.commands.shell.contexts import Context
from miniqueue.commands.shell.flags import Shell
from miniqueue.commands.shell.values import completed
from miniqueue.errors import MiniqueueError

#: How long a person waits for names, and how many are offered.
_TIMEOUT_SECONDS: Final = 1.0
_MAX_NAMES: Final = 1000
#: A name without characters that a shell interprets, at its beginning or anywhere.
_PLAIN: Final = re.compile(r"[\w.][\w.@%+=:,-]*")


def _topic_names(ctx: click.Context) -> list[str]:
    """Return the topics of the broker that the command line names; none if it does not reply, or has to be asked."""
    parameters: dict[str, Any] = ctx.params
    texts = {name: parameters.get(name) or "" for name in Context.__slots__}
    choice = Choice(parameters.get("context_name") or "", Context(**texts), _TIMEOUT_SECONDS)
    process = ctx.find_object(Shell)
    try:
        with client_of(choice, process.environ if process else {}, retries=0) as client:
            return [name for name in client.topics() if _PLAIN.fullmatch(name)][:_MAX_NAMES]
    except MiniqueueError:
        return []


TOPIC: Final = completed("topic", _topic_names)

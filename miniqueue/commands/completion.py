"""`miniqueue completion`: prints the script by which a shell completes commands, flags, topics, and contexts."""

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.completing import SHELLS, script_for
from miniqueue.commands.shell.output import Output
from miniqueue.commands.shell.values import Choice


@flags.command(epilog="Example, in ~/.bashrc: source <(miniqueue completion bash)")
@flags.argument("shell", type=Choice(list(SHELLS)))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete commands, flags, and names of topics and contexts.

    SHELL is bash, zsh, or fish. To complete the name of a topic, the script asks the broker for the topics.
    """
    Output().write(script_for(shell))

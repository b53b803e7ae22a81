"""Questions to a person. Nothing requires an answer: for each there is a flag, and in a pipe nothing is asked."""

import getpass
import sys

import click

from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import quote

_NOT_DONE = 1


def confirm(act: str, is_confirmed: bool) -> None:
    """Return if an act that destroys something is confirmed, by the flag --yes or by a person.

    Args:
      act: what will be done, such as `delete the topic orders`.
      is_confirmed: whether the command line has --yes.

    Raises ConfigError if nothing can be asked; ends the command with exit code 1 if the answer is not yes.
    """
    if is_confirmed:
        return
    if not can_ask():
        raise ConfigError([f"to {act}, use --yes; there is no terminal on which it could be confirmed"])
    sys.stderr.write(f"{act[:1].upper()}{act[1:]}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stderr.write("miniqueue: nothing was done\n")
        raise click.exceptions.Exit(_NOT_DONE)


def secret_for(user: str) -> str:
    """Ask for the password of a user, without showing it; raises ConfigError if nothing can be asked."""
    if not can_ask():
        raise ConfigError([f"the user {quote(user)} has no secret; use --password-file or --token-file"])
    return getpass.getpass(f"Password of {quote(user)}: ")


def can_ask() -> bool:
    """Whether a person sees questions and can answer them."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

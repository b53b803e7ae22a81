"""`miniqueue context`: gives brokers names, and chooses the one that commands use."""

import os
from dataclasses import replace
from typing import Any, Final

from miniqueue.commands.shell import asking, flags
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import CONTEXT_NAME
from miniqueue.commands.shell.contexts import (
    Context,
    Contexts,
    context_named,
    read_contexts,
    write_contexts,
)
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.values import FILE, NAME
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape, quote
from miniqueue_client.address import Address

_FILES: Final = ("password_file", "token_file", "ca_file", "cert_file", "key_file")
_COLUMNS: Final = (
    Column("context", "context"),
    Column("in use", "in_use"),
    Column("url", "url"),
    Column("user", "user"),
)


@flags.group()
def command() -> None:
    """Name brokers, and choose the one that commands use.

    Contexts are in a file of the user's folder for configuration, with mode 0600: miniqueue/contexts.toml in
    $XDG_CONFIG_HOME or ~/.config. --context, --url, and the variables MINIQUEUE_URL and MINIQUEUE_CONTEXT take
    precedence over the context in use.
    """


@command.command(epilog="Example: miniqueue context add prod --url rediss://queue:6379 --token-file prod.token")
@flags.argument("name", type=NAME)
@flags.flag("--url", required=True, help="Address: redis://host[:port], or rediss://host[:port] for TLS.")
@flags.flag("--user", default="", help="Name of the user.")
@flags.flag("--password-file", type=FILE, help="File with the password of the user; without, it is asked for.")
@flags.flag("--token-file", type=FILE, help="File with a token.")
@flags.flag("--ca-file", type=FILE, help="Certificates to trust, PEM.")
@flags.flag("--cert-file", type=FILE, help="Certificate of the client, PEM.")
@flags.flag("--key-file", type=FILE, help="Private key of the certificate.")
@flags.flag("--use", is_flag=True, help="Use it from now on; the first context always is.")
@with_output
def add(name: str, url: str, user: str, use: bool, output: Output, **files: str | None) -> None:
    """Add the context NAME, or replace it. Nothing is connected."""
    Address(url)  # raises ConfigError for an invalid one
    if files["token_file"] and files["password_file"]:
        raise ConfigError(["flags --token-file and --password-file: only one can be used"])
    if url.startswith("redis://") and (files["ca_file"] or files["cert_file"] or files["key_file"]):
        raise ConfigError(["a certificate requires TLS; the URL must begin with rediss://"])
    paths = {kind: os.path.abspath(file) if file else "" for kind, file in files.items()}
    environ = flags.shell().environ
    contexts = read_contexts(environ)
    named = {**contexts.named, name: Context(url, user, **paths)}
    is_used = use or not contexts.current
    write_contexts(environ, Contexts(named, name if is_used else contexts.current))
    verb = "replaced" if name in contexts.named else "added"
    output.done(f"{escape(name)}: {verb}{', in use' if is_used else ''}", {"context": name, "done": verb})


@command.command(name="list")
@with_output
def list_contexts(output: Output) -> None:
    """List the contexts, without secrets."""
    contexts = read_contexts(flags.shell().environ)
    rows = [_row(name, contexts) for name in sorted(contexts.named)]
    output.rows(_COLUMNS, rows, empty="There are no contexts; see miniqueue context add -h")


@command.command()
@flags.argument("name", type=CONTEXT_NAME)
@with_output
def use(name: str, output: Output) -> None:
    """Use the context NAME from now on."""
    environ = flags.shell().environ
    contexts = read_contexts(environ)
    context_named(contexts, name)
    write_contexts(environ, replace(contexts, current=name))
    output.done(f"{escape(name)}: in use", {"context": name, "done": "used"})


@command.command()
@flags.argument("name", type=CONTEXT_NAME, required=False)
@with_output
def show(name: str | None, output: Output) -> None:
    """Show the context NAME, or the one in use, without secrets."""
    contexts = read_contexts(flags.shell().environ)
    if not (shown_name := name or contexts.current):
        raise ConfigError(["no context is in use; see miniqueue context use -h"])
    context = context_named(contexts, shown_name)
    members = _row(shown_name, contexts) | {kind: getattr(context, kind) for kind in _FILES}
    output.record({member: value for member, value in members.items() if value != ""})


@command.command()
@flags.argument("name", type=CONTEXT_NAME)
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
def remove(name: str, yes: bool, output: Output) -> None:
    """Remove the context NAME. Files with tokens and certificates are kept."""
    environ = flags.shell().environ
    contexts = read_contexts(environ)
    context_named(contexts, name)
    asking.confirm(f"remove the context {quote(name)}", yes)
    named = {known: context for known, context in contexts.named.items() if known != name}
    write_contexts(environ, Contexts(named, "" if contexts.current == name else contexts.current))
    output.done(f"{escape(name)}: removed", {"context": name, "done": "removed"})


def _row(name: str, contexts: Contexts) -> dict[str, Any]:
    context = contexts.named[name]
    # The text of an address has no secret.
    return {
        "context": name,
        "in_use": name == contexts.current,
        "url": str(Address(context.url)),
        "user": context.user,
    }

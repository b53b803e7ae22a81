"""Which broker a command uses, and a client for it.

    --url  >  --context  >  MINIQUEUE_URL  >  MINIQUEUE_CONTEXT  >  the context in use  >  the broker on this machine

The first that is there names the broker; flags for the user and for TLS override what a context has. A secret comes
from a file, from the URL, or, on a terminal, from a person; never from a flag, which other users could see.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import click

from miniqueue.commands.shell import asking
from miniqueue.commands.shell.contexts import Context, context_named, read_contexts
from miniqueue.commands.shell.flags import flag, shell
from miniqueue.commands.shell.local import local_broker
from miniqueue.commands.shell.refusals import explained, trusting
from miniqueue.commands.shell.values import FILE, POSITIVE_DURATION, completed
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import quote
from miniqueue_client import Client, RefusedError
from miniqueue_client.address import Address
from miniqueue_client.calls.call import Call
from miniqueue_client.calls.errors import UntrustedError

T = TypeVar("T")

#: Retries of a command that a person waits for: a lost connection is worth another attempt, a broker that is down is
#: not worth ten seconds.
RETRIES: Final = 2
_SECTION: Final = "Broker"
_MAX_SECRET_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Choice:
    """What the flags say about the broker; "" for each that is missing.

    Attributes:
      context: the name of a context.
      broker: the address, the user, and files.
      timeout_seconds: how long to wait for a connection, and for a reply.
      settings: texts of settings of the broker, by name, for the broker on this machine.
    """

    context: str = ""
    broker: Context = field(default_factory=lambda: Context(""))
    timeout_seconds: float = 10.0
    settings: Mapping[str, str] = field(default_factory=dict)


class BrokerClient(Client):
    """A client whose errors say what to do."""

    def execute(self, call: Call[T]) -> T:
        """Carry out a call; raises ClientError."""
        try:
            return super().execute(call)
        except RefusedError as exc:
            raise explained(exc, call.words) from exc
        except UntrustedError as exc:
            raise trusting(exc) from exc

    def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls; the result of a refused call is its RefusedError. Raises ClientError."""
        try:
            return super().execute_all(calls)
        except UntrustedError as exc:
            raise trusting(exc) from exc


def connected(function: Callable[..., T]) -> Callable[..., T]:
    """Add the flags that say which broker to use; call the function with a client for it as the first argument."""

    @functools.wraps(function)
    def act(**parameters: Any) -> T:  # noqa: ANN401 - values of flags
        with client_of(_taken_from(parameters), shell().environ) as client:
            return function(client, **parameters)

    return _with_flags(act)


def choosing(function: Callable[..., T]) -> Callable[..., T]:
    """Add the same flags; call the function with a `Choice`, for commands that connect by themselves."""

    @functools.wraps(function)
    def act(**parameters: Any) -> T:  # noqa: ANN401 - values of flags
        return function(_taken_from(parameters), **parameters)

    return _with_flags(act)


def client_of(choice: Choice, environ: Mapping[str, str], retries: int = RETRIES) -> BrokerClient:
    """Return a client for the chosen broker, which connects when it is used; raises ConfigError.

    Args:
      choice: what the flags say.
      environ: environment variables.
      retries: maximum number of retries of a call; negative: unlimited.
    """
    return BrokerClient.of(address_of(choice, environ, retries))


def address_of(choice: Choice, environ: Mapping[str, str], retries: int = RETRIES) -> Address:
    """Return the address of the chosen broker, with user, secret, and certificates; raises ConfigError."""
    broker, password = broker_of(choice, environ)
    url = _without_user(broker.url)
    options: dict[str, Any] = {"client_name": "miniqueue"}
    secret = _secret_of(broker, password)
    if user := broker.user or unquote(urlsplit(broker.url).username or ""):
        options["username"] = user
    if secret is not None:
        options["password"] = secret
    if broker.url.startswith("rediss://"):
        files = {"ssl_ca_certs": broker.ca_file, "ssl_certfile": broker.cert_file, "ssl_keyfile": broker.key_file}
        options |= {name: _existing(name, file) for name, file in files.items() if file}
    elif broker.ca_file or broker.cert_file or broker.key_file:
        raise ConfigError(["a certificate requires TLS; the URL must begin with rediss://"])
    # In redis-py, a user and a secret in the URL would override the options.
    return Address(url, choice.timeout_seconds, retries, options=options)


def broker_of(choice: Choice, environ: Mapping[str, str]) -> tuple[Context, str | None]:
    """Return the chosen broker, and its password if the settings of a broker on this machine contain it."""
    chosen = choice.broker
    is_named = bool(choice.context or choice.settings)
    if url := chosen.url or ("" if is_named else environ.get("MINIQUEUE_URL", "")):
        return replace(chosen, url=url), None
    contexts = read_contexts(environ)
    in_use = "" if is_named else environ.get("MINIQUEUE_CONTEXT", "") or contexts.current
    if name := choice.context or in_use:
        return _overridden(context_named(contexts, name), chosen), None
    local = local_broker(environ, choice.settings)
    has_user = chosen.user or chosen.token_file or chosen.password_file
    return replace(chosen, url=local.url), None if has_user else local.password


def _overridden(known: Context, chosen: Context) -> Context:
    """Return a context with what the flags say instead; a user of the flags does not get the secret of the context."""
    if chosen.user or chosen.token_file or chosen.password_file:
        known = replace(known, url=_without_user(known.url), user="", token_file="", password_file="")
    texts = {name: text for name in Context.__slots__ if (text := getattr(chosen, name))}
    return replace(known, **texts)


def _secret_of(broker: Context, password: str | None) -> str | None:
    if broker.token_file and broker.password_file:
        raise ConfigError(["flags --token-file and --password-file: only one can be used"])
    if broker.token_file:
        return read_secret("--token-file", broker.token_file)
    if broker.password_file:
        return read_secret("--password-file", broker.password_file)
    parts = urlsplit(broker.url)
    if parts.password is not None and broker.user in ("", unquote(parts.username or broker.user)):
        return unquote(parts.password)
    if password is None and broker.user:
        return asking.secret_for(broker.user)
    return password


def _without_user(url: str) -> str:
    """Return a URL without its user and secret; raises ConfigError for an invalid one."""
    Address(url)
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    return url.replace(user + at, "", 1)


def read_secret(flag_name: str, file: str) -> str:
    """Return the first line of a file; raises ConfigError, which does not quote it."""
    try:
        with Path(file).open("rb") as opened:
            line = opened.read(_MAX_SECRET_BYTES).partition(b"\n")[0].rstrip(b"\r").decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"flag {flag_name}: no secret can be read from {quote(file)}"]) from exc
    if not line:
        raise ConfigError([f"flag {flag_name}: the first line of {quote(file)} is empty"])
    return line


def _existing(name: str, file: str) -> str:
    flag_names = {"ssl_ca_certs": "--ca-file", "ssl_certfile": "--cert-file", "ssl_keyfile": "--key-file"}
    if not Path(file).is_file():
        raise ConfigError([f"flag {flag_names[name]}: no such file: {quote(file)}"])
    return file


def _taken_from(parameters: dict[str, Any]) -> Choice:
    """Remove the values of the flags from the parameters of a command."""
    settings = {
        name.replace("_", "-"): text for name in ("resp_port", "config") if (text := parameters.pop(name, None))
    }
    texts = {name: parameters.pop(name) or "" for name in Context.__slots__}
    return Choice(parameters.pop("context_name") or "", Context(**texts), parameters.pop("timeout"), settings)


def _with_flags(function: Callable[..., T]) -> Callable[..., T]:
    for add in reversed(_FLAGS):
        function = add(function)
    return function


def _context_names(ctx: click.Context) -> list[str]:
    return sorted(read_contexts(ctx.obj.environ).named)


CONTEXT_NAME = completed("context", _context_names)
_FLAGS: Final = (
    flag(
        "--context", "context_name", type=CONTEXT_NAME, section=_SECTION, help="Context to use; see miniqueue context."
    ),
    flag(
        "--url",
        section=_SECTION,
        help="Address: redis://[user[:secret]@]host[:port], or rediss:// for TLS. Default: $MINIQUEUE_URL, the "
        "context, or the broker on this machine.",
    ),
    flag("--user", section=_SECTION, help="Name of the user; without a file, the password is asked for."),
    flag("--password-file", type=FILE, section=_SECTION, help="File with the password of the user."),
    flag("--token-file", type=FILE, section=_SECTION, help="File with a token, as miniqueue user add writes it."),
    flag("--ca-file", type=FILE, section=_SECTION, help="Certificates to trust, PEM. Default: those of the machine."),
    flag("--cert-file", type=FILE, section=_SECTION, help="Certificate of the client, PEM."),
    flag("--key-file", type=FILE, section=_SECTION, help="Private key of the certificate."),
    flag(
        "--timeout",
        type=POSITIVE_DURATION,
        default=10.0,
        section=_SECTION,
        help="How long to wait for a connection, and for a reply.  [default: 10s]",
    ),
)

"""The broker on this machine, as its own settings say: for a command next to it, such as one in its container.

MINIQUEUE_RESP_PORT, MINIQUEUE_RESP_TLS, MINIQUEUE_PASSWORD, MINIQUEUE_PASSWORD_FILE, MINIQUEUE_CONFIG
"""

from collections.abc import Mapping
from typing import NamedTuple

from miniqueue.server.config.config import Config, load
from miniqueue.server.security.user_source import password_of


class LocalBroker(NamedTuple):
    """The address of the broker on this machine, and the password of the user `default`; None if it has none."""

    url: str
    password: str | None


def local_broker(environ: Mapping[str, str], flags: Mapping[str, str]) -> LocalBroker:
    """Return the broker that the settings describe.

    Args:
      environ: environment variables.
      flags: texts of settings that the command line contains, by name without the dash.

    Raises ConfigError for settings that are invalid.
    """
    config = load([f"-{name}={text}" for name, text in flags.items()], environ)
    assert isinstance(config, Config)  # the flags ask no question
    scheme = "rediss" if config.resp_tls else "redis"
    return LocalBroker(f"{scheme}://localhost:{config.resp_port}", password_of(config) if config.has_password else None)

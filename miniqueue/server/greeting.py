"""What a terminal shows when the broker is ready: the store, the ports, the security, and the next command to try.

    miniqueue 0.1.0 is ready

      store       ./data; a publish is confirmed when it is on disk
      http        https://localhost:8080; clients trust certs/ca.pem
      resp        redis://localhost:6379
      monitoring  http://localhost:8081/ui/
      security    no users; only programs on this machine can connect
      try         miniqueue pub hello 'Dear Ada'

It is for people, and no part of the log: a program that reads the log of a broker is no terminal. Pure.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from miniqueue import __version__
from miniqueue.server.config.config import Config
from miniqueue.server.process.escaping import escape
from miniqueue.server.security.exposure import is_loopback, serves_dashboard

_SYNC = {
    "always": "a publish is confirmed when it is on disk",
    "interval": "a power failure loses what was confirmed since the last sync",
    "never": "a power failure loses what the system has not written yet",
}
_DEFAULT_RESP_PORT = 6379


class Ports(NamedTuple):
    """The ports on which the broker listens; `shards` has those of single shards."""

    https: int
    resp: int
    monitor: int
    shards: tuple[int, ...] = ()


def is_greeted(config: Config, is_terminal: bool) -> bool:
    """Whether a person reads the log on a terminal, and has not asked for JSON, or for less."""
    return is_terminal and config.human is not False and config.level in ("debug", "info")


def program_of(started_as: str, *, is_on_path: bool) -> str:
    """Return the program that the next command names: miniqueue, or the path of a program that no shell would find.

    Args:
      started_as: the path by which the broker was started.
      is_on_path: whether a shell finds miniqueue.
    """
    is_module = Path(started_as).suffix == ".py"
    return "miniqueue" if is_on_path or is_module else escape(shlex.quote(started_as))


def greeting(config: Config, ports: Ports, program: str = "miniqueue") -> str:
    """Return the lines, with an empty one before and after them; see `program_of` for the program."""
    rows = {
        "store": _store(config),
        "http": f"https://{_shown_host(config.host)}:{ports.https}; clients trust {_authority(config)}",
        "resp": _resp(config, ports),
        "monitoring": _monitoring_url(config, ports),
        "security": _security(config),
        "try": _next_command(config, ports, program),
    }
    lines = "".join(f"  {name:<12}{text}\n" for name, text in rows.items())
    return f"\nminiqueue {__version__} is ready\n\n{lines}\n"


def _store(config: Config) -> str:
    if config.storage == "memory":
        return "memory; messages are lost when the broker stops"
    return f"{escape(str(config.db))}; {_SYNC[config.sync]}"


def _resp(config: Config, ports: Ports) -> str:
    shards = f"; shards have ports {ports.shards[0]} to {ports.shards[-1]}" if ports.shards else ""
    return _resp_url(config, ports) + shards


def _resp_url(config: Config, ports: Ports) -> str:
    return f"{'rediss' if config.resp_tls else 'redis'}://{_shown_host(config.host)}:{ports.resp}"


def _monitoring_url(config: Config, ports: Ports) -> str:
    scheme = "http" if is_loopback(config.monitor_host) else "https"
    page = "/ui/" if serves_dashboard(config) else "/metrics"
    return f"{scheme}://{_shown_host(config.monitor_host)}:{ports.monitor}{page}"


def _authority(config: Config) -> str:
    """Return what clients trust: the authority next to a certificate of a first start, else that of the certificate."""
    if config.has_default_certificate:
        return escape(str(config.cert.parent / "ca.pem"))
    return f"the authority of {escape(str(config.cert))}"


def _security(config: Config) -> str:
    if config.users is not None:
        access = f"users of {escape(str(config.users))}"
    elif config.has_password:
        access = "a password, of the user default"
    else:
        access = "no users: clients need no password"
    reach = "only this machine" if is_loopback(config.host) else "other machines, too,"
    return f"{access}; {reach} can connect"


def _next_command(config: Config, ports: Ports, program: str) -> str:
    words = [f"{program} pub hello 'Dear Ada'"]
    if ports.resp != _DEFAULT_RESP_PORT or config.resp_tls:
        words.append(f"--url {_resp_url(config, ports)}")
    if config.resp_tls:
        words.append(f"--ca-file {_authority(config)}" if config.has_default_certificate else "")
    if config.users is not None:
        words.append("--token-file file")
    elif config.has_password:
        words.append("--user default")
    return " ".join(filter(None, words))


def _shown_host(host: str) -> str:
    """Return the name by which this machine reaches a listener."""
    if is_loopback(host) or host in ("0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else escape(host)

"""The configuration of one broker process: what the operator set, checked as a whole.

    defaults  <  TOML file  <  MINIQUEUE_* variables  <  flags

The last one wins, but every text is checked: a bad variable is reported even when a flag overrides it. All
problems are found before any is reported, so that an operator mends them in one go. This module reads the
TOML file and nothing else: whether a port is free or a certificate good, the parts that use them find out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from miniqueue.errors import ConfigError
from miniqueue.server.escaping import quote
from miniqueue.server.setting import Setting
from miniqueue.server.settings import SETTINGS
from miniqueue.server.sources import Given, Question, Reading, read_file, read_flags, read_variables

__all__ = ["Config", "Question", "load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, with its value; `settings.SETTINGS` says what each one means."""

    cert: Path
    key: Path
    db: Path
    human: bool | None
    level: Literal["debug", "info", "warning", "error", "disabled"]
    period_seconds: float
    lease_seconds: float
    host: str
    users: Path | None
    client_ca: Path | None
    insecure: bool
    port: int
    resp_port: int
    resp_tls: bool
    monitor_host: str
    monitor_port: int
    sync: Literal["always", "interval", "never"]
    sync_interval_seconds: float
    storage: Literal["leveldb", "memory"]
    compression: Literal["none", "snappy"]
    min_free_bytes: int
    ballast_bytes: int
    max_message_bytes: int
    max_connections: int
    max_connections_per_address: int
    max_output_bytes: int
    max_header_bytes: int
    handshake_seconds: float
    body_seconds: float
    max_uncommitted_bytes: int
    idle_seconds: float
    max_topics: int
    max_groups: int
    max_schedules: int
    max_topic_messages: int
    max_topic_bytes: int
    max_dedup_ids: int
    topic_limit_policy: Literal["refuse", "drop-oldest", "dead-letter"]
    max_prefetch: int
    pipeline_seconds: float
    settle_seconds: float
    stall_seconds: float
    http_server: Literal["hypercorn", "granian"]
    config_file: Path | None

    @property
    def has_default_certificate(self) -> bool:
        """Whether certificate and key are at their default places, where miniqueue may make them itself."""
        defaults = {setting.field: setting.parse(setting.default) for setting in SETTINGS}
        return self.cert == defaults["cert"] and self.key == defaults["key"]


def load(argv: Sequence[str], environ: Mapping[str, str]) -> Config | Question:
    """Return the configuration, or the question that the command line asks instead.

    Args:
      argv: the words of the command line, without the program's name.
      environ: the environment; only names that start with `MINIQUEUE_` count.

    Raises:
      ConfigError: with every problem found, one line each.
    """
    flags = read_flags(argv)
    if flags.question is not None:
        return flags.question
    variables = read_variables(environ)
    file = _named_file([*variables.given, *flags.given])
    readings = [file, variables, flags]
    problems = [problem for reading in readings for problem in reading.problems]
    values = _values((given for reading in readings for given in reading.given), problems)
    problems += _clashes(values) + _contradictions(values)
    if problems:
        raise ConfigError(problems)
    return Config(**values)


def _named_file(given: Sequence[Given]) -> Reading:
    """Read the file that the last `config` names; an empty name means none."""
    path = next((item.text for item in reversed(given) if item.setting.name == "config"), "")
    return read_file(Path(path)) if path else Reading()


def _values(given: Iterable[Given], problems: list[str]) -> dict[str, Any]:
    """Return the value of each field, later texts over earlier ones; a field whose text is bad has none.

    The values are `Any` because the table cannot tell a type checker which parser goes with which field; a
    test compares them with the types of `Config`.
    """
    values = {setting.field: setting.parse(setting.default) for setting in SETTINGS}
    for item in given:
        try:
            values[item.setting.field] = item.setting.parse(item.text)
        except ConfigError as error:
            problems.append(f"{item.origin}: {quote(item.text)}: {error}")
            values.pop(item.setting.field, None)
    return values


def _clashes(values: Mapping[str, object]) -> list[str]:
    """Return a problem for each port that two listeners want."""
    wanted_by: defaultdict[object, list[Setting]] = defaultdict(list)
    for setting in SETTINGS:
        if setting.placeholder == "port" and values.get(setting.field):
            wanted_by[values[setting.field]].append(setting)
    return [
        f"settings {' and '.join(s.flag for s in settings)}: both {port}; want a port of its own for each"
        for port, settings in wanted_by.items()
        if len(settings) > 1
    ]


def _contradictions(values: Mapping[str, object]) -> list[str]:
    """Return a problem for each setting that cannot be had together with another."""
    if values.get("client_ca") is None:
        return []
    problems = []
    if values.get("users", "") is None:
        problems.append("flag -client-ca: want -users too, where the subjects of certificates stand")
    if values.get("http_server") == "granian":
        problems.append("flag -client-ca: want -http-server hypercorn; granian does not tell whose certificate it saw")
    return problems

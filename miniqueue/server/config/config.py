"""The configuration of one broker process: the values of all settings, checked as a whole.

    defaults  <  file  <  MINIQUEUE_* variables  <  flags

The last source wins, but every text is checked: a bad variable is reported even if a flag overrides it. All problems
are collected before any is reported, so that an operator can fix them in one go. This module reads that file and
nothing else: whether a port is free or a certificate is valid is checked by the parts that use them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.settings.defaults import NO_DEFAULTS, TopicDefaults
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import ConfigError, CorruptionError, NoSpaceError, StorageError
from miniqueue.server.config.setting import MAX_PORT, PASSWORD_VARIABLE, Setting
from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.server.config.sources import Question, Reading, SettingText, read_file, read_flags, read_variables
from miniqueue.server.process.escaping import quote

__all__ = ["Config", "Question", "load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The value of every setting; `settings_table.SETTINGS` defines their meanings."""

    cert: Path
    key: Path
    db: Path
    human: bool | None
    level: Literal["debug", "info", "warning", "error", "disabled"]
    period_seconds: float
    lease_seconds: float
    host: str
    users: Path | None
    password_file: Path | None
    client_ca: Path | None
    insecure: bool
    port: int
    resp_port: int
    resp_tls: bool
    monitor_host: str
    monitor_port: int
    dashboard: bool | None
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
    max_transaction_bytes: int
    max_memory_bytes: int
    idle_seconds: float
    max_topics: int
    max_groups: int
    max_partitions: int
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
    shards: int
    shard_ports: int
    announced_host: str
    config_file: Path | None
    password: str = field(default="", repr=False)
    """The text of the variable MINIQUEUE_PASSWORD, which is no setting."""
    topic_defaults: TopicDefaults = NO_DEFAULTS
    """The settings of new topics, which only a file contains."""

    @property
    def has_users(self) -> bool:
        """Whether clients must authenticate."""
        return self.users is not None or self.has_password

    @property
    def has_password(self) -> bool:
        """Whether there is a password, that of the only user while there is no users file."""
        return bool(self.password) or self.password_file is not None

    @property
    def has_default_certificate(self) -> bool:
        """Whether certificate and key have their default paths, the only ones where miniqueue creates them itself."""
        defaults = {setting.field: setting.parse(setting.default) for setting in SETTINGS}
        return self.cert == defaults["cert"] and self.key == defaults["key"]


def load(argv: Sequence[str], environ: Mapping[str, str]) -> Config | Question:
    """Return the configuration, or the question (help, version) that the command line asks instead.

    Args:
      argv: the arguments of the command line, without the program's name.
      environ: the environment; only names that start with `MINIQUEUE_` are read.

    Raises:
      ConfigError: with every problem of all sources, one line each.
    """
    flags = read_flags(argv)
    if flags.question is not None:
        return flags.question
    variables = read_variables(environ)
    file = _read_config_file([*variables.texts, *flags.texts])
    readings = [file, variables, flags]
    problems = [problem for reading in readings for problem in reading.problems]
    values = _values((text for reading in readings for text in reading.texts), problems)
    problems += _clashes(values) + _contradictions(values, has_password=bool(variables.password))
    if problems:
        raise ConfigError(problems)
    return Config(**values, password=variables.password, topic_defaults=file.topic_defaults)


def _read_config_file(texts: Sequence[SettingText]) -> Reading:
    """Read the file that the last text for the setting `config` names; an empty name means no file."""
    path = next((item.text for item in reversed(texts) if item.setting.name == "config"), "")
    return read_file(Path(path)) if path else Reading()


def _values(texts: Iterable[SettingText], problems: list[str]) -> dict[str, Any]:
    """Return the value of each field; later texts override earlier ones; a field with a bad text is left out.

    The values are `Any` because a type checker cannot see which parser belongs to which field; a test compares them
    with the types of `Config`. Adds a problem for each bad text.
    """
    values = {setting.field: setting.parse(setting.default) for setting in SETTINGS}
    for item in texts:
        try:
            values[item.setting.field] = item.setting.parse(item.text)
        except ConfigError as error:
            problems.append(f"{item.origin}: {quote(item.text)}: {error}")
            values.pop(item.setting.field, None)
    return values


def _clashes(values: Mapping[str, Any]) -> list[str]:
    """Return a problem for each port that is set for two listeners."""
    settings_by_port: defaultdict[object, list[Setting]] = defaultdict(list)
    for setting in SETTINGS:
        if setting.placeholder == "port" and (first := values.get(setting.field)):
            count = values.get("shards", 1) if setting.field == "shard_ports" else 1
            for port in range(first, first + count):
                settings_by_port[port].append(setting)
    return [
        f"settings {' and '.join(s.flag for s in settings)}: both {port}; each listener requires its own port"
        for port, settings in settings_by_port.items()
        if len(settings) > 1
    ]


def _contradictions(values: Mapping[str, Any], *, has_password: bool) -> list[str]:
    """Return a problem for each combination of settings that cannot work."""
    problems = []
    if has_password and values.get("password_file") is not None:
        problems.append(f"flag -password-file: {PASSWORD_VARIABLE} contains a password, too; remove one of them")
    problems += _shard_problems(values)
    if values.get("client_ca") is None:
        return problems
    if values.get("users", "") is None:
        problems.append("flag -client-ca: requires -users, the file that maps certificate subjects to users")
    if values.get("http_server") == "granian":
        problems.append("flag -client-ca: requires -http-server hypercorn; granian does not report client certificates")
    return problems


def _shard_problems(values: Mapping[str, Any]) -> list[str]:
    first, shard_count = values.get("shard_ports", 0), values.get("shards", 0)
    if first and shard_count == 1:
        return ["flag -shard-ports: requires -shards, the number of processes that have a port each"]
    if first + shard_count - 1 > MAX_PORT:
        return [f"flag -shard-ports: {first}: no room for {shard_count} ports; the last port is {MAX_PORT}"]
    if values.get("announced_host") and "shard_ports" in values and not first:
        return ["flag -announce-host: requires -shard-ports; only the ports of shards are announced"]
    return []


class ShownSetting(NamedTuple):
    """A setting of the process, as it is shown; `default` is whether it has its default value."""

    flag: str
    value: str
    default: bool


def shown_settings(config: Config) -> list[ShownSetting]:
    """Return all settings; none of them is a secret, but some are the paths of secrets."""
    return [
        ShownSetting(setting.flag, _text_of(setting, value), value == setting.parse(setting.default))
        for setting in SETTINGS
        for value in (getattr(config, setting.field),)
    ]


_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_DURATIONS = (("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001))


def _text_of(setting: Setting, value: object) -> str:
    """Return a text of a value that the setting accepts, as people write it: `256MiB`, `1h`, `true`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and setting.field.endswith("_bytes"):
        return next((f"{value // size}{unit}" for unit, size in _SIZES if value and value % size == 0), str(value))
    if isinstance(value, float) and setting.field.endswith("_seconds"):
        amounts = ((unit, value / size) for unit, size in _DURATIONS)
        return next((f"{amount:.0f}{unit}" for unit, amount in amounts if amount and amount.is_integer()), f"{value}s")
    return str(value)


def broker_limits(config: Config, max_memory_bytes: int) -> BrokerLimits:
    """Return the limits of a broker with these settings, and the memory that -max-memory sets, or its default."""
    return BrokerLimits(
        max_topics=config.max_topics,
        max_topic_messages=config.max_topic_messages,
        max_topic_bytes=config.max_topic_bytes,
        max_dedup_ids=config.max_dedup_ids,
        max_groups=config.max_groups,
        max_partitions=config.max_partitions,
        max_schedules=config.max_schedules,
        policy=LimitPolicy(config.topic_limit_policy),
        max_prefetch=config.max_prefetch,
        max_uncommitted_bytes=config.max_uncommitted_bytes,
        max_transaction_bytes=config.max_transaction_bytes,
        max_memory_bytes=max_memory_bytes,
        max_connections=config.max_connections,
        has_users=config.has_users,
    )


@contextmanager
def naming_flag_of_store() -> Iterator[None]:
    """Add the flag -db to an error about its directory; errors about damage or a full disk name a file instead."""
    try:
        yield
    except (CorruptionError, NoSpaceError):
        raise
    except StorageError as error:
        error.args = (f"flag -db: {error}",)
        raise

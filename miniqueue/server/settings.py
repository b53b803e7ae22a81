"""The table of settings: the one place that names them.

From a row come the flag, the environment variable, the key of the TOML file, the line of `-h`, the line of
the option table in the README, and the field of `config.Config`:

    name "resp-port"   flag -resp-port · variable MINIQUEUE_RESP_PORT · key resp-port · field resp_port

Cert, key, db, human, level, period and port are those of the Go program, with its defaults; only the
directory of the certificates is another. To add a setting, add a row here and a field to `config.Config`; a
test compares the two.
"""

from collections.abc import Callable
from dataclasses import dataclass

from miniqueue.core.prefetch import MAX_PREFETCH
from miniqueue.server.durations import parse_optional_duration, parse_positive_duration
from miniqueue.server.values import (
    number_up_to,
    one_of,
    parse_count,
    parse_host,
    parse_http_server,
    parse_lease,
    parse_level,
    parse_optional_path,
    parse_path,
    parse_port,
    parse_size,
    parse_space,
    parse_switch,
)

VARIABLE_PREFIX = "MINIQUEUE_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing an operator can set."""

    name: str
    field: str
    """The attribute of `Config`; it carries the unit that the name leaves out."""
    default: str
    """The text that the setting has when nobody sets it; parsed like any other."""
    parse: Callable[[str], object]
    """From text to value; raises `ConfigError` with what is wanted."""
    placeholder: str
    """What stands for the value in `-h`; empty for a switch, which needs none."""
    help: str

    @property
    def flag(self) -> str:
        """The flag as it is written on the command line; a second dash in front does no harm."""
        return "-" + self.name

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return VARIABLE_PREFIX + self.name.upper().replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """Whether the flag alone means true, and a value needs `=`."""
        return not self.placeholder


SETTINGS = (
    Setting("cert", "cert", "./certs/localhost.pem", parse_path, "file", "TLS certificate of the HTTP port, PEM"),
    Setting("key", "key", "./certs/localhost-key.pem", parse_path, "file", "private key of the certificate, PEM"),
    Setting("db", "db", "./data", parse_path, "directory", "where the messages are kept"),
    Setting("human", "human", "false", parse_switch, "", "log lines for people instead of JSON"),
    Setting(
        "level",
        "level",
        "debug",
        parse_level,
        "level",
        "what is logged: debug (everything), info, warning, error, disabled (nothing)",
    ),
    Setting(
        "period",
        "period_seconds",
        "1s",
        parse_positive_duration,
        "duration",
        "time between checks for delayed messages that are due",
    ),
    Setting(
        "lease", "lease_seconds", "30s", parse_lease, "duration", "how long messages are leased to who receives them"
    ),
    Setting("host", "host", "127.0.0.1", parse_host, "address", "where the HTTP and RESP ports listen"),
    Setting(
        "users",
        "users",
        "",
        parse_optional_path,
        "file",
        "TOML file with the users, of `miniqueue user`; without it everybody may do everything",
    ),
    Setting(
        "client-ca",
        "client_ca",
        "",
        parse_optional_path,
        "file",
        "authorities of which every TLS client must have a certificate, PEM; its subject may stand for a user",
    ),
    Setting(
        "insecure",
        "insecure",
        "false",
        parse_switch,
        "",
        "let everybody in who reaches -host, without users; warns at every start",
    ),
    Setting("port", "port", "8080", parse_port, "port", "HTTP/2 over TLS; 0 takes any free port"),
    Setting("resp-port", "resp_port", "6379", parse_port, "port", "RESP, for Redis clients; 0 takes any free port"),
    Setting(
        "resp-tls",
        "resp_tls",
        "false",
        parse_switch,
        "",
        "TLS on the RESP port too, with the same certificate",
    ),
    Setting(
        "monitor-port",
        "monitor_port",
        "8081",
        parse_port,
        "port",
        "plain HTTP for monitoring, always on loopback; 0 takes any free port",
    ),
    Setting(
        "sync",
        "sync",
        "always",
        one_of("always", "interval", "never"),
        "mode",
        "when messages reach the disk: always (before the reply), interval or never",
    ),
    Setting(
        "sync-interval",
        "sync_interval_seconds",
        "1s",
        parse_positive_duration,
        "duration",
        "time between syncs with -sync interval",
    ),
    Setting(
        "storage",
        "storage",
        "leveldb",
        one_of("leveldb", "memory"),
        "kind",
        "leveldb, or memory, which forgets everything at exit",
    ),
    Setting(
        "min-free",
        "min_free_bytes",
        "256MiB",
        parse_space,
        "size",
        "messages are refused while less is free on the disk of -db; 0 for no such mark",
    ),
    Setting(
        "ballast",
        "ballast_bytes",
        "160MiB",
        parse_space,
        "size",
        "space kept in a file in -db, to be given back when the disk is full; 0 for none",
    ),
    Setting(
        "max-message-size",
        "max_message_bytes",
        "1MiB",
        parse_size,
        "size",
        "largest message accepted, such as 65536, 64KiB or 1MB",
    ),
    Setting(
        "max-connections",
        "max_connections",
        "10000",
        parse_count,
        "number",
        "connections of clients at a time; 0 for as many as there are descriptors",
    ),
    Setting(
        "max-connections-per-address",
        "max_connections_per_address",
        "1000",
        parse_count,
        "number",
        "the same from one address, ten times as many from loopback; 0 for no limit",
    ),
    Setting(
        "max-output",
        "max_output_bytes",
        "32MiB",
        parse_size,
        "size",
        "what a RESP client may leave lying of its replies; a quarter of it after a minute",
    ),
    Setting(
        "max-header-size",
        "max_header_bytes",
        "8KiB",
        parse_size,
        "size",
        "headers of one HTTP request, with the request line",
    ),
    Setting(
        "handshake-timeout",
        "handshake_seconds",
        "10s",
        parse_positive_duration,
        "duration",
        "how long TLS may take to be agreed on",
    ),
    Setting(
        "body-timeout",
        "body_seconds",
        "10s",
        parse_positive_duration,
        "duration",
        "how long the next part of a request's body may take to come",
    ),
    Setting(
        "max-uncommitted",
        "max_uncommitted_bytes",
        "64MiB",
        parse_space,
        "size",
        "bytes that all clients together may have waiting for a commit; 0 for no limit",
    ),
    Setting(
        "idle-timeout",
        "idle_seconds",
        "1h",
        parse_optional_duration,
        "duration",
        "how long a client that is not subscribed may do nothing; 0 for ever",
    ),
    Setting("max-topics", "max_topics", "20000", parse_count, "number", "topics that there may be; 0 for no limit"),
    Setting(
        "max-topic-messages",
        "max_topic_messages",
        "100000000",
        parse_count,
        "number",
        "messages that a topic may hold; 0 for no limit",
    ),
    Setting(
        "max-topic-bytes",
        "max_topic_bytes",
        "8GiB",
        parse_space,
        "size",
        "bytes of messages that a topic may hold; 0 for no limit",
    ),
    Setting(
        "topic-limit-policy",
        "topic_limit_policy",
        "refuse",
        one_of("refuse", "drop-oldest", "dead-letter"),
        "policy",
        "when a topic is full: refuse what comes, drop-oldest, or make it a dead-letter",
    ),
    Setting(
        "max-prefetch",
        "max_prefetch",
        "10000",
        number_up_to(MAX_PREFETCH),
        "number",
        "messages that a consumer may have out at a time, at most 10000",
    ),
    Setting("max-pipelined", "max_pipelined", "512", number_up_to(100_000), "number", "pipelined RESP commands a turn"),
    Setting(
        "stall-timeout",
        "stall_seconds",
        "30s",
        parse_positive_duration,
        "duration",
        "how long an HTTP client may take nothing of what waits for it before its stream is reset",
    ),
    Setting(
        "http-server",
        "http_server",
        "hypercorn",
        parse_http_server,
        "name",
        "what serves the HTTP port: hypercorn, or granian, which is faster and an extra",
    ),
    Setting("config", "config_file", "", parse_optional_path, "file", "TOML file with settings"),
)

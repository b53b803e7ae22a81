"""The configuration from its three sources, and every problem in them at once."""

import dataclasses
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import ConfigError, InvalidTopicError
from miniqueue.server.config import setting
from miniqueue.server.config.config import Config, Question, load
from miniqueue.server.config.settings_table import SETTINGS

DEFAULTS = Config(
    cert=Path("certs/localhost.pem"),
    key=Path("certs/localhost-key.pem"),
    db=Path("data"),
    human=None,
    level="debug",
    period_seconds=1.0,
    lease_seconds=30.0,
    host="127.0.0.1",
    users=None,
    password_file=None,
    client_ca=None,
    insecure=False,
    port=8080,
    resp_port=6379,
    resp_tls=False,
    monitor_host="127.0.0.1",
    monitor_port=8081,
    dashboard=None,
    sync="always",
    sync_interval_seconds=1.0,
    storage="leveldb",
    compression="none",
    min_free_bytes=256 << 20,
    ballast_bytes=160 << 20,
    max_message_bytes=1024 * 1024,
    max_connections=10_000,
    max_connections_per_address=1000,
    max_output_bytes=32 << 20,
    max_header_bytes=8192,
    handshake_seconds=10.0,
    body_seconds=10.0,
    max_uncommitted_bytes=64 << 20,
    max_transaction_bytes=16 << 20,
    max_memory_bytes=0,
    idle_seconds=3600.0,
    max_topics=20_000,
    max_groups=1000,
    max_partitions=1_000_000,
    max_schedules=10_000,
    max_topic_messages=100_000_000,
    max_topic_bytes=8 << 30,
    max_dedup_ids=1_000_000,
    topic_limit_policy="refuse",
    max_prefetch=10_000,
    pipeline_seconds=0.002,
    settle_seconds=2.0,
    stall_seconds=30.0,
    http_server="hypercorn",
    shards=1,
    shard_ports=0,
    announced_host="",
    config_file=None,
)


def load_config(argv=(), environ=None):
    config = load(argv, environ or {})
    assert isinstance(config, Config)
    return config


def problems_of(argv=(), environ=None):
    with pytest.raises(ConfigError) as caught:
        load(argv, environ or {})
    return caught.value.problems


def toml_file(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_without_settings_the_defaults_apply():
    assert load_config() == DEFAULTS


GOOD_FLAGS = [
    (["-port", "9000"], {"port": 9000}),
    (["-port=9000"], {"port": 9000}),
    (["--port=9000"], {"port": 9000}),
    (["--port", "9000"], {"port": 9000}),
    (["-port", "1", "-port", "2"], {"port": 2}),
    (["-port", "0", "-resp-port", "0", "-monitor-port", "0"], {"port": 0, "resp_port": 0, "monitor_port": 0}),
    (["-human"], {"human": True}),
    (["--human"], {"human": True}),
    (["-human=false"], {"human": False}),
    (["-human="], {"human": None}),
    (["-human=T"], {"human": True}),
    (["-human", "-human=0"], {"human": False}),
    (["-human", "-port", "9000"], {"human": True, "port": 9000}),
    (["-level", "disabled"], {"level": "disabled"}),
    (["-level=warning"], {"level": "warning"}),
    (["-period", "1m30s"], {"period_seconds": 90.0}),
    (["-sync", "interval", "-sync-interval", "50ms"], {"sync": "interval", "sync_interval_seconds": 0.05}),
    (["-storage", "memory"], {"storage": "memory"}),
    (["-compression", "snappy"], {"compression": "snappy"}),
    (["-max-message-size", "64KiB"], {"max_message_bytes": 65536}),
    (["-max-message-size", "2MB"], {"max_message_bytes": 2_000_000}),
    (["-max-message-size", "17"], {"max_message_bytes": 17}),
    (["-max-message-size", "512MiB"], {"max_message_bytes": 512 * 1024 * 1024}),
    (["-min-free", "50GiB"], {"min_free_bytes": 50 << 30}),
    (["-ballast", "0"], {"ballast_bytes": 0}),
    (["-host", "::1"], {"host": "::1"}),
    (["-db", "a=b"], {"db": Path("a=b")}),
    (["-db=a=b"], {"db": Path("a=b")}),
    (["-db", "-odd"], {"db": Path("-odd")}),
    (["-cert", "a.pem", "-key", "b.pem"], {"cert": Path("a.pem"), "key": Path("b.pem")}),
    (["-config="], {}),
]


@pytest.mark.parametrize(("argv", "changes"), GOOD_FLAGS)
def test_flags_are_read_as_in_go(argv, changes):
    assert load_config(argv) == dataclasses.replace(DEFAULTS, **changes)


@pytest.mark.parametrize("word", ["-h", "--h", "-help", "--help"])
def test_help_is_answered_even_among_mistakes(word):
    assert load(["-port", "x", word, "-nonsense"], {"MINIQUEUE_NONSENSE": "1"}) is Question.HELP


@pytest.mark.parametrize("word", ["-version", "--version"])
def test_version_is_a_question(word):
    assert load([word], {}) is Question.VERSION


def test_the_first_word_may_ask_without_a_dash():
    assert load(["help", "-nonsense"], {}) is Question.HELP
    assert load(["version"], {"MINIQUEUE_NONSENSE": "1"}) is Question.VERSION
    assert load_config(["-db", "help"]).db == Path("help")
    assert problems_of(["-human", "help"]) == ["argument 'help': neither a flag nor a command; see -h"]


def test_a_word_that_is_the_value_of_a_flag_is_no_question():
    assert load_config(["-db", "-h"]).db == Path("-h")


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_every_setting_has_a_field_of_the_type_that_its_parser_returns(row):
    hint = get_type_hints(Config)[row.field]
    value = row.parse(row.default)
    assert value in get_args(hint) or isinstance(value, hint)


def test_every_field_has_a_setting():
    own = ["password", "topic_defaults"]
    assert [field.name for field in dataclasses.fields(Config)] == [*(row.field for row in SETTINGS), *own]


VARIABLES = {
    "MINIQUEUE_CERT": "c.pem",
    "MINIQUEUE_KEY": "k.pem",
    "MINIQUEUE_DB": "d",
    "MINIQUEUE_HUMAN": "true",
    "MINIQUEUE_LEVEL": "error",
    "MINIQUEUE_PERIOD": "250ms",
    "MINIQUEUE_LEASE": "1m",
    "MINIQUEUE_HOST": "0.0.0.0",
    "MINIQUEUE_USERS": "u.toml",
    "MINIQUEUE_PASSWORD_FILE": "p",
    "MINIQUEUE_CLIENT_CA": "",
    "MINIQUEUE_INSECURE": "true",
    "MINIQUEUE_PORT": "1",
    "MINIQUEUE_RESP_PORT": "2",
    "MINIQUEUE_RESP_TLS": "true",
    "MINIQUEUE_MONITOR_HOST": "0.0.0.0",
    "MINIQUEUE_MONITOR_PORT": "3",
    "MINIQUEUE_DASHBOARD": "true",
    "MINIQUEUE_SYNC": "never",
    "MINIQUEUE_SYNC_INTERVAL": "2s",
    "MINIQUEUE_STORAGE": "memory",
    "MINIQUEUE_COMPRESSION": "snappy",
    "MINIQUEUE_MIN_FREE": "0",
    "MINIQUEUE_BALLAST": "1GB",
    "MINIQUEUE_MAX_MESSAGE_SIZE": "3KiB",
    "MINIQUEUE_MAX_CONNECTIONS": "500",
    "MINIQUEUE_MAX_CONNECTIONS_PER_ADDRESS": "0",
    "MINIQUEUE_MAX_OUTPUT": "2MiB",
    "MINIQUEUE_MAX_HEADER_SIZE": "4KiB",
    "MINIQUEUE_HANDSHAKE_TIMEOUT": "3s",
    "MINIQUEUE_BODY_TIMEOUT": "1m",
    "MINIQUEUE_MAX_MEMORY": "300MiB",
    "MINIQUEUE_MAX_UNCOMMITTED": "1MiB",
    "MINIQUEUE_MAX_TRANSACTION_BYTES": "2MiB",
    "MINIQUEUE_IDLE_TIMEOUT": "0",
    "MINIQUEUE_MAX_TOPICS": "7",
    "MINIQUEUE_MAX_GROUPS": "8",
    "MINIQUEUE_MAX_PARTITIONS": "16",
    "MINIQUEUE_MAX_SCHEDULES": "9",
    "MINIQUEUE_MAX_TOPIC_MESSAGES": "0",
    "MINIQUEUE_MAX_TOPIC_BYTES": "5MB",
    "MINIQUEUE_MAX_DEDUP_IDS": "0",
    "MINIQUEUE_TOPIC_LIMIT_POLICY": "dead-letter",
    "MINIQUEUE_MAX_PREFETCH": "100",
    "MINIQUEUE_PIPELINE_TIME": "5ms",
    "MINIQUEUE_SETTLE_TIME": "3s",
    "MINIQUEUE_STALL_TIMEOUT": "90s",
    "MINIQUEUE_HTTP_SERVER": "granian",
    "MINIQUEUE_SHARD_PORTS": "7000",
    "MINIQUEUE_ANNOUNCE_HOST": "queue.example",
    "MINIQUEUE_SHARDS": "4",
    "MINIQUEUE_CONFIG": "",
}
VARIABLES_CONFIG = Config(
    cert=Path("c.pem"),
    key=Path("k.pem"),
    db=Path("d"),
    human=True,
    level="error",
    period_seconds=0.25,
    lease_seconds=60.0,
    host="0.0.0.0",
    users=Path("u.toml"),
    password_file=Path("p"),
    client_ca=None,
    insecure=True,
    port=1,
    resp_port=2,
    resp_tls=True,
    monitor_host="0.0.0.0",
    monitor_port=3,
    dashboard=True,
    sync="never",
    sync_interval_seconds=2.0,
    storage="memory",
    compression="snappy",
    min_free_bytes=0,
    ballast_bytes=1_000_000_000,
    max_message_bytes=3072,
    max_connections=500,
    max_connections_per_address=0,
    max_output_bytes=2 << 20,
    max_header_bytes=4096,
    handshake_seconds=3.0,
    body_seconds=60.0,
    max_uncommitted_bytes=1 << 20,
    max_transaction_bytes=2 << 20,
    max_memory_bytes=300 << 20,
    idle_seconds=0.0,
    max_topics=7,
    max_groups=8,
    max_partitions=16,
    max_schedules=9,
    max_topic_messages=0,
    max_topic_bytes=5_000_000,
    max_dedup_ids=0,
    topic_limit_policy="dead-letter",
    max_prefetch=100,
    pipeline_seconds=0.005,
    settle_seconds=3.0,
    stall_seconds=90.0,
    http_server="granian",
    shards=4,
    shard_ports=7000,
    announced_host="queue.example",
    config_file=None,
)


def test_every_setting_can_come_from_a_variable():
    assert load_config(environ=VARIABLES) == VARIABLES_CONFIG
    assert set(VARIABLES) == {row.variable for row in SETTINGS}


def test_other_variables_do_not_matter():
    assert load_config(environ={"PORT": "x", "MINIQUEUEPORT": "x", "XMINIQUEUE_PORT": "x"}) == DEFAULTS


def test_a_file_sets_settings_under_the_names_of_the_flags(tmp_path):
    path = toml_file(
        tmp_path,
        """
        port = 9000
        resp-port = "9001"
        human = true
        level = "info"
        period = "2s"
        max-message-size = 2048
        """,
    )
    expected = dataclasses.replace(
        DEFAULTS,
        port=9000,
        resp_port=9001,
        human=True,
        level="info",
        period_seconds=2.0,
        max_message_bytes=2048,
        config_file=Path(path),
    )
    assert load_config(["-config", path]) == expected
    assert load_config(environ={"MINIQUEUE_CONFIG": path}) == expected


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(tmp_path):
    path = toml_file(tmp_path, "port = 1\nresp-port = 2\nmonitor-port = 3\n")
    variables = {"MINIQUEUE_CONFIG": path, "MINIQUEUE_RESP_PORT": "20", "MINIQUEUE_MONITOR_PORT": "30"}
    config = load_config(["-monitor-port", "300"], variables)
    assert (config.port, config.resp_port, config.monitor_port, config.host) == (1, 20, 300, "127.0.0.1")


def test_the_config_flag_beats_the_config_variable(tmp_path):
    path = toml_file(tmp_path, "port = 1")
    assert load_config(["-config", path], {"MINIQUEUE_CONFIG": "/nowhere/at/all"}).port == 1


FORMATS = {
    "c.json": '{"port": 9000, "human": true, "period": "2s", "defaults": {"ordered": true, "a*": {"fair": true}}}',
    "c.yaml": "port: 9000\nhuman: true\nperiod: 2s\ndefaults:\n  ordered: true\n  'a*':\n    fair: true\n",
    "c.YML": "{port: 9000, human: true, period: 2s, defaults: {ordered: true, a*: {fair: true}}}",
    "c.conf": "port = 9000\nhuman = true\nperiod = '2s'\ndefaults.ordered = true\ndefaults.'a*'.fair = true\n",
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_suffix_of_the_file_determines_its_format(tmp_path, name):
    path = tmp_path / name
    path.write_text(FORMATS[name])
    config = load_config(["-config", str(path)])
    assert (config.port, config.human, config.period_seconds) == (9000, True, 2.0)
    assert config.topic_defaults.settings(b"ab") == TopicSettings(ordered=True, fair=True)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("c.json", '{"port": [1]}', "key port: invalid value; must be a string, a number, true, or false"),
        ("c.json", '{"defaults": {"a*": {"trace": 1}}}', 'key defaults."a*": trace must be true or false'),
        ("c.yaml", "defaults: {a*: {trace: 1}}", 'key defaults."a*": trace must be true or false'),
        ("c.yaml", "prot: 1", "key prot: no such setting; did you mean port?"),
        ("c.yaml", "port: 2020-01-01", "key port: invalid value; must be a string, a number, true, or false"),
    ],
)
def test_errors_have_the_same_form_in_every_format(tmp_path, name, text, problem):
    path = tmp_path / name
    path.write_text(text)
    assert problems_of(["-config", str(path)]) == [f"file {path} {problem}"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("c.json", "[]", "invalid content; must be a table of settings"),
        ("c.json", "{", "Expecting property name"),
        ("c.json", '{"port": NaN}', "unexpected character"),
        ("c.json", '{"db": "\\ud800"}', "surrogate"),
        ("c.json", '{"port": 1, "port": 2}', "key 'port' occurs twice"),
        ("c.json", '{"defaults": {"a*": {"trace": true, "trace": false}}}', "key 'trace' occurs twice"),
        ("c.json", "[" * 100_000, "recursion"),
        ("c.yaml", "", "invalid content; must be a table of settings"),
        ("c.yaml", "1: 2", "invalid key in line 1; must be text; put it in quotes"),
        ("c.yaml", "defaults: {1: 2}", "invalid key in line 1; must be text"),
        ("c.yaml", "defaults: {on: {trace: true}}", "invalid key in line 1; must be text"),
        ("c.yaml", "defaults:\n  jobs: {1: 2}", "invalid key in line 2; must be text"),
        ("c.yaml", "defaults: {[a]: 1}", "invalid key in line 1; must be text"),
        ("c.yaml", 'defaults: {"\\ud800": {trace: true}}', "surrogates not allowed"),
        ("c.yaml", "port: [", "while parsing a flow"),
        ("c.yaml", "port: 1\nport: 2", "key 'port' occurs twice"),
        ("c.yaml", "defaults: {a*: {trace: true, trace: false}}", "key 'trace' occurs twice"),
        ("c.yaml", "db: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("c.yaml", "a: &a [*a]", "key a: no such setting"),
        ("c.yaml", "{" * 5000, "recursion"),
    ],
)
def test_a_file_that_is_not_in_its_format_is_one_problem(tmp_path, name, text, reason):
    path = tmp_path / name
    path.write_text(text)
    [problem] = problems_of(["-config", str(path)])
    assert reason in problem
    assert problem.isprintable()


def test_yaml_without_its_parser_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "c.yaml"
    path.write_text("port: 1")
    [problem] = problems_of(["-config", str(path)])
    assert problem.endswith("a YAML file requires PyYAML; run pip install 'miniqueue[yaml]', or use TOML or JSON")


def test_yaml_is_imported_only_when_it_is_used():
    code = "import sys, miniqueue.cli, miniqueue.server.run; print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


BAD_PORT = "invalid port; must be 0 to 65535; 0 means any free port"
BAD_SPACE = "invalid size; must be 0 or more, in bytes or with KB, MB, GB, KiB, MiB, or GiB"
BAD_SIZE = "invalid size; must be 1 to 512MiB, in bytes or with KB, MB, GB, KiB, MiB, or GiB"
BAD_FLAGS = [
    (["-port", "65536"], f"flag -port: '65536': {BAD_PORT}"),
    (["-port", "-1"], f"flag -port: '-1': {BAD_PORT}"),
    (["-port", "٣"], f"flag -port: '\\u0663': {BAD_PORT}"),
    (["-port="], f"flag -port: '': {BAD_PORT}"),
    (["-port", "80\n"], f"flag -port: '80\\n': {BAD_PORT}"),
    (["-port"], "flag -port: missing value; use -port port"),
    (["-human=yes"], "flag -human: 'yes': invalid value; must be true or false"),
    (["-human", "yes"], "argument 'yes': neither a flag nor a command; see -h"),
    (["start"], "argument 'start': neither a flag nor a command; see -h"),
    (["-"], "argument '-': neither a flag nor a command; see -h"),
    (["---port"], "argument '---port': neither a flag nor a command; see -h"),
    (["-prot", "80"], "flag -prot: no such setting; did you mean -port?"),
    (["-prot=80"], "flag -prot: no such setting; did you mean -port?"),
    (["-zzz"], "flag -zzz: no such setting"),
    (["-z\x1b[2J"], "flag -z\\x1b[2J: no such setting"),
    (
        ["-level", "loud"],
        "flag -level: 'loud': invalid log level; must be one of debug, info, warning, error, disabled",
    ),
    (["-sync", "Always"], "flag -sync: 'Always': invalid value; must be one of always, interval, never"),
    (["-storage", "etcd"], "flag -storage: 'etcd': invalid value; must be one of leveldb, memory"),
    (
        ["-host", ""],
        "flag -host: '': invalid address; "
        "must be an address to listen on, such as 127.0.0.1, or 0.0.0.0 for all interfaces",
    ),
    (["-period", "0"], "flag -period: '0': invalid duration; must be more than zero, such as 500ms or 1s"),
    (["-period", "-1s"], "flag -period: '-1s': invalid duration; must be more than zero, such as 500ms or 1s"),
    (
        ["-period", "1"],
        "flag -period: '1': invalid duration; must be numbers with units, such as 500ms, 1s, 1m30s, 1.5h, or 2d",
    ),
    (["-min-free", "5%"], f"flag -min-free: '5%': {BAD_SPACE}"),
    (["-ballast", ""], f"flag -ballast: '': {BAD_SPACE}"),
    (["-idle-timeout", "-1s"], "flag -idle-timeout: '-1s': invalid duration; must be 0 or more, such as 0, 10m, or 1h"),
    (["-max-topics", "-1"], "flag -max-topics: '-1': invalid number; must be 0 to 999999999999999; 0 means unlimited"),
    (["-lease", "0s"], "flag -lease: '0s': invalid duration; must be more than zero, such as 500ms or 1s"),
    (["-lease", "13h"], "flag -lease: '13h': lease too long; must be at most 12h"),
    (["-max-prefetch", "0"], "flag -max-prefetch: '0': invalid number; must be 1 to 10000"),
    (
        ["-pipeline-time", "0"],
        "flag -pipeline-time: '0': invalid duration; must be more than zero, such as 500ms or 1s",
    ),
    (["-max-prefetch", "10001"], "flag -max-prefetch: '10001': invalid number; must be 1 to 10000"),
    (["-max-message-size", "0"], f"flag -max-message-size: '0': {BAD_SIZE}"),
    (["-max-message-size", "1.5MiB"], f"flag -max-message-size: '1.5MiB': {BAD_SIZE}"),
    (["-max-message-size", "1GiB"], f"flag -max-message-size: '1GiB': {BAD_SIZE}"),
    (["-max-message-size", "9" * 5000], f"flag -max-message-size: '{'9' * 196}...: {BAD_SIZE}"),
    (["-db", ""], "flag -db: '': invalid path; must not be empty or contain a NUL character"),
    (["-http-server", "nginx"], "flag -http-server: 'nginx': invalid value; must be one of hypercorn, granian"),
    (
        ["-port", "7", "-resp-port", "7"],
        "settings -port and -resp-port: both 7; each listener requires its own port",
    ),
    (
        ["-shards", "3", "-shard-ports", "6377"],
        "settings -resp-port and -shard-ports: both 6379; each listener requires its own port",
    ),
    (["-shard-ports", "7000"], "flag -shard-ports: requires -shards, the number of processes that have a port each"),
    (
        ["-shards", "4", "-shard-ports", "65533"],
        "flag -shard-ports: 65533: no room for 4 ports; the last port is 65535",
    ),
    (
        ["-shards", "4", "-shard-ports", "x"],
        "flag -shard-ports: 'x': invalid port; must be 1 to 65535; 0 means no ports",
    ),
    *[
        (
            ["-shards", "4", "-shard-ports", "7000", "-announce-host", host],
            f"flag -announce-host: '{host}': invalid host; must be a name or an address that clients can connect to, "
            "without a port",
        )
        for host in ("0.0.0.0", "::", "host:7000", "[::1]", "a b", "redis://host")
    ],
    (
        ["-shards", "4", "-announce-host", "queue"],
        "flag -announce-host: requires -shard-ports; only the ports of shards are announced",
    ),
    (["-port", "8081"], "settings -port and -monitor-port: both 8081; each listener requires its own port"),
]


@pytest.mark.parametrize(("argv", "problem"), BAD_FLAGS)
def test_a_bad_flag_is_one_problem_that_says_what_is_allowed(argv, problem):
    assert problems_of(argv) == [problem]


BAD_FILES = [
    ("port = 99999", f"port: '99999': {BAD_PORT}"),
    ("port = true", f"port: 'true': {BAD_PORT}"),
    ("port = 8080.0", f"port: '8080.0': {BAD_PORT}"),
    ("port = 0x" + "f" * 5000, f"port: 'an integer of more than 64 bits': {BAD_PORT}"),
    ("port = [1]", "port: invalid value; must be a string, a number, true, or false"),
    ("[port]", "port: invalid value; must be a string, a number, true, or false"),
    ("port = 2020-01-01", "port: invalid value; must be a string, a number, true, or false"),
    ("prot = 1", "prot: no such setting; did you mean port?"),
    ("resp_port = 1", "resp_port: no such setting; did you mean resp-port?"),
    ('config = "y.toml"', "config: no such setting"),
    ('db = "a\\u0000b"', "db: 'a\\x00b': invalid path; must not be empty or contain a NUL character"),
    ('"a\\u001b" = 1', "a\\x1b: no such setting"),
]


@pytest.mark.parametrize(("text", "problem"), BAD_FILES)
def test_a_bad_key_is_a_problem_that_names_file_and_key(tmp_path, text, problem):
    path = toml_file(tmp_path, text)
    assert problems_of(["-config", path]) == [f"file {path} key {problem}"]


def test_a_file_sets_the_settings_of_new_topics(tmp_path):
    text = """
        [defaults]
        max_deliveries = 5
        lease_seconds = "5m"
        [defaults."*.dlq"]
        lease_seconds = "default"
    """
    defaults = load_config(["-config", toml_file(tmp_path, text)]).topic_defaults
    assert defaults.settings(b"t") == TopicSettings(max_deliveries=5, lease_seconds=300)
    assert defaults.settings(b"t.dlq") == TopicSettings(max_deliveries=5)


BAD_DEFAULTS = [
    ("defaults = 1", ["defaults: invalid value; must be a table of topic settings"]),
    (
        "[defaults]\nmax_deliveries = -1",
        ["defaults: max_deliveries must be a whole number from 0, no limit, to 1000000"],
    ),
    ('[defaults."a*"]\nowner = "ada"', ['defaults."a*": owner is no default of new topics; set it for a topic']),
    (
        '[defaults."a*"]\ntrace = 1\nordered = 2020-01-01\nfair = true',
        ['defaults."a*": trace must be true or false', 'defaults."a*": ordered must be true or false'],
    ),
    (
        '[defaults]\ndead_letter_topic = "a/b"\n[defaults."a\\u001b"]\nfair = true',
        [
            "defaults: dead_letter_topic must be the name of a topic",
            r'defaults."a\x1b": ' + str(InvalidTopicError()),
        ],
    ),
]


@pytest.mark.parametrize(("text", "problems"), BAD_DEFAULTS)
def test_every_bad_default_is_a_problem_that_names_its_place(tmp_path, text, problems):
    path = toml_file(tmp_path, text)
    assert problems_of(["-config", path]) == [f"file {path} key {problem}" for problem in problems]


@pytest.mark.parametrize(
    "text", [b"port = ", b"\xff", b"port = 1\nport = 2", b"a = " + b"[" * 100_000, b"port = " + b"9" * 5000]
)
def test_a_file_that_is_not_toml_is_one_problem(tmp_path, text):
    path = toml_file(tmp_path, text)
    [problem] = problems_of(["-config", path])
    assert problem.startswith(f"flag -config: file {path}: ")
    assert "\n" not in problem


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path):
    missing = str(tmp_path / "none.toml")
    assert problems_of(["-config", missing]) == [f"flag -config: file {missing}: No such file or directory"]
    assert problems_of(["-config", str(tmp_path)]) == [f"flag -config: file {tmp_path}: Is a directory"]


def test_all_problems_of_all_sources_are_reported_at_once(tmp_path):
    path = toml_file(tmp_path, "level = 'loud'\nnonsense = 1")
    variables = {"MINIQUEUE_PROT": "1", "MINIQUEUE_DB": ""}
    problems = problems_of(["-config", path, "-period=x", "-resp-port", "8081", "-what"], variables)
    assert [problem.split(": ")[0] for problem in problems] == [
        f"file {path} key nonsense",
        "variable MINIQUEUE_PROT",
        "flag -what",
        f"file {path} key level",
        "variable MINIQUEUE_DB",
        "flag -period",
        "settings -resp-port and -monitor-port",
    ]


def test_a_bad_text_is_a_problem_even_when_a_better_source_overrides_it():
    assert len(problems_of(["-port", "1"], {"MINIQUEUE_PORT": "x"})) == 1
    assert len(problems_of(["-port", "x", "-port", "1"])) == 1


def test_a_port_that_is_bad_clashes_with_nothing():
    assert len(problems_of(["-resp-port", "x", "-port", "6379"])) == 1


@pytest.mark.parametrize("installed", ["none", "0.1.0"])
def test_an_http_server_that_is_not_installed_is_a_problem_among_others(monkeypatch, installed):
    def version(package):
        if installed == "none":
            raise PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(setting, "version", version)
    problems = problems_of(["-http-server", "granian", "-port", "x"])
    assert problems == [
        f"flag -http-server: 'granian': requires granian {setting.GRANIAN_VERSION}; installed: {installed}; "
        "run pip install 'miniqueue[granian]'",
        f"flag -port: 'x': {BAD_PORT}",
    ]


def test_the_extra_installs_the_version_that_the_server_requires():
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert extras["optional-dependencies"]["granian"] == [f"granian=={setting.GRANIAN_VERSION}"]


def test_certificates_are_created_only_at_their_default_paths():
    assert load_config().has_default_certificate
    assert load_config(["-cert", "certs/localhost.pem"]).has_default_certificate
    assert not load_config(["-cert", "other.pem"]).has_default_certificate
    assert not load_config(["-key", "other.pem"]).has_default_certificate


def test_client_certificates_require_users_and_hypercorn():
    assert load_config(["-client-ca=ca.pem", "-users=u.toml"]).client_ca == Path("ca.pem")
    assert problems_of(["-client-ca=ca.pem", "-http-server=granian"]) == [
        "flag -client-ca: requires -users, the file that maps certificate subjects to users",
        "flag -client-ca: requires -http-server hypercorn; granian does not report client certificates",
    ]


def test_a_password_is_a_variable_and_shown_nowhere():
    config = load_config(environ={"MINIQUEUE_PASSWORD": "a long secret"})
    assert (config.password, config.has_users) == ("a long secret", True)
    assert "secret" not in repr(config)
    (line,) = problems_of(["-password", "a long secret"])
    assert line.startswith("flag -password: no such setting")


def test_an_empty_password_is_none():
    assert not load_config(environ={"MINIQUEUE_PASSWORD": ""}).has_users


def test_two_passwords_are_a_contradiction():
    (line,) = problems_of(environ={"MINIQUEUE_PASSWORD": "a long secret", "MINIQUEUE_PASSWORD_FILE": "file"})
    assert line == "flag -password-file: MINIQUEUE_PASSWORD contains a password, too; remove one of them"


def test_a_variable_that_is_nearly_the_password_is_named():
    (line,) = problems_of(environ={"MINIQUEUE_PASWORD": "a long secret"})
    assert line == "variable MINIQUEUE_PASWORD: no such setting; did you mean MINIQUEUE_PASSWORD?"

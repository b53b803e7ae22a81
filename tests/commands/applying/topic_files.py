"""A target of `tests.fuzz`, the file of `miniqueue apply`: TOML with topics, groups, schedules, and users.

Documented: ConfigError, one printable line for each problem. What a broker has is exported as a file that changes
nothing.
"""

from random import Random

from miniqueue.commands.applying.document import parse
from miniqueue.commands.applying.export import render
from miniqueue.commands.applying.lines import lines_of, member_of
from miniqueue.commands.applying.plan import plan
from miniqueue.commands.applying.resources import IDLE, SCHEDULE_DEFAULTS, Described, Existing, Kind, Resource
from miniqueue.core.settings.settings import DEFAULTS
from miniqueue.errors import ConfigError
from tests.fuzz.engine import Target, attempt
from tests.fuzz.pieces import some, text

_SETTINGS = (
    *("partitions = 4", "trace = true", 'lease_seconds = "1m30s"', "ttl_seconds = 0.5", "max_rate = 1e6"),
    *('retry_delays = ["1s", 10]', 'schema = {type = "object"}', 'owner = "ada"', 'retention = "forever"'),
    *("paused_in_until_ms = 2096-12-01T08:00:00Z", 'dead_letter_topic = "letters"', 'ttl_seconds = "default"'),
)
_SCHEDULE = (
    *('missed = "one"', "until = 2096-01-01T00:00:00+01:00", 'key = {base64 = "/w=="}', 'priority = "low"'),
    *('ttl_seconds = "5m"', 'headers = {a = "1"}', 'headers = [["a", "1"], ["a", "2"]]', 'payload = "x"'),
)
_USER = ('publisher = ["orders.*"]', 'admin = ["*"]', "max_topics = 3", 'certificate = "CN=ada"')
_TOKENS = (
    *(b"[topics.", b"[schedules.", b"[users.", b"groups", b'"default"', b"base64", b"start", b"idle_seconds"),
    *(b"1979-05-27", b"1979-05-27T07:32:00", b"nan", b"-inf", b"{}", b"[]", b"'''", b"1e400", b"= -1", b"= true"),
)


def _make(chance: Random) -> bytes:
    lines = []
    for number in range(chance.randint(0, 3)):
        name = f"topics.{_key(chance, number)}"
        lines += [f"[{name}]", *_once(chance, _SETTINGS)]
        if chance.random() < 1 / 2:
            lines += [f"[{name}.groups.g{number}]", *_once(chance, ('start = "latest"', 'idle_seconds = "14d"'))]
    for number in range(chance.randint(0, 2)):
        rule = chance.choice(('cron = "0 9 * * *"\nzone = "Europe/Berlin"', 'every_seconds = "1h"'))
        lines += [f"[schedules.{_key(chance, number)}]", 'topic = "t"', rule, *_once(chance, _SCHEDULE)]
    if chance.random() < 1 / 3:
        lines += ["[users.ada]", *_once(chance, _USER)]
    return "\n".join(lines).encode("utf-8", "replace")


def _once(chance: Random, lines: tuple[str, ...]) -> list[str]:
    """Return some of the lines, each key once."""
    return list({line.partition(" ")[0]: line for line in some(chance, lines, 4)}.values())


def _key(chance: Random, number: int) -> str:
    word = "".join(c for c in text(chance) if c.isalnum() or c in ".-_*")[:20]
    return f'"{word}{number}"'


def _check(content: bytes) -> None:
    described = attempt(parse, content.decode("utf-8", "replace"), documented=(ConfigError,))
    if isinstance(described, ConfigError):
        _check_problems(described)
        return
    changes = attempt(lambda: plan(described, Existing({}), prunes=True), documented=(ConfigError,))
    if isinstance(changes, ConfigError):
        _check_problems(changes)
        return
    lines = [line for change in changes for line in lines_of(change)]
    assert all(line.isprintable() for line in lines), lines
    assert [member_of(change)["act"] for change in changes] == ["create"] * len(described.resources)
    existing = Existing(_complete(described))
    exported = parse(render(existing))
    assert plan(exported, existing, prunes=True) == [], render(existing)


def _check_problems(error: ConfigError) -> None:
    assert error.problems
    assert all(problem.isprintable() for problem in error.problems), error.problems


def _complete(described: Described) -> dict[Resource, dict[str, object]]:
    """Return what a broker has after a file was applied, without users."""
    defaults = {Kind.TOPIC: DEFAULTS, Kind.GROUP: {IDLE: 0.0}, Kind.SCHEDULE: SCHEDULE_DEFAULTS}
    return {
        resource: {name: value for name, value in {**defaults[resource.kind], **values}.items() if name != "start"}
        for resource, values in described.resources.items()
        if resource.kind in defaults
    }


TARGET = Target("topic_files", _make, _check, tokens=_TOKENS, quick_inputs=400)

"""What clients see is what the records say, byte for byte; and the scripts leave nothing out."""

import re
from collections.abc import Iterator
from difflib import unified_diff

import pytest

from miniqueue.access.rights import COMMANDS as RIGHTS
from miniqueue.access.rights import ROUTES
from miniqueue.core.settings.settings import FIELDS
from miniqueue.errors import MiniqueueError
from miniqueue.server import run  # noqa: F401 - imports all that has errors of its own
from miniqueue.server.resp.commands.connection import _CLIENT_SUBCOMMANDS
from miniqueue.server.resp.commands.table import COMMANDS
from miniqueue.storage.format import keys
from miniqueue.tools import TOOLS
from miniqueue.tools.audit.store import Audit
from tests.transcripts.plays import PLAYS, RECORDS, first_pairs, opened_on_disk
from tests.transcripts.script import sections, words_of

#: Number of differing lines to show; `python -m tests.transcripts.record` and `git diff` show the rest.
MAX_DIFFERENCE_LINES = 100
MAX_LINE_CHARS = 1000
MAX_RECORDS_BYTES = 1_300_000
#: What takes a fault in the middle of one act, a package that is not installed, or several shards.
UNHEARD_CODES = {"CROSSSHARD", "NOVALIDATOR", "TRYAGAIN", "UNAVAILABLE"}
#: The beginning of the routes that only a broker with shards has; `tests/server/shards` plays them.
OF_SHARDS = "/shards/"


def difference(recorded: str, played: str) -> str:
    """Return what is not the same, each line as long as can be read."""
    lines = unified_diff(recorded.splitlines(), played.splitlines(), "recorded", "played", lineterm="", n=2)
    shown = [line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…" for line in lines]
    left = len(shown) - MAX_DIFFERENCE_LINES
    return "\n".join([*shown[:MAX_DIFFERENCE_LINES], *([f"… and {left} lines more"] if left > 0 else [])])


@pytest.mark.parametrize("name", sorted(PLAYS))
def test_clients_see_what_was_recorded(name):
    recorded, played = (RECORDS / name).read_text(), PLAYS[name]()
    if played != recorded:
        pytest.fail(f"{name} is not what was recorded:\n{difference(recorded, played)}", pytrace=False)


def test_the_first_store_can_be_opened_from_disk_and_holds_the_same(tmp_path):
    recorded, played = (RECORDS / "opened.txt").read_text(), opened_on_disk(tmp_path / "db")
    if played != recorded:
        pytest.fail(f"the store on disk holds something else:\n{difference(recorded, played)}", pytrace=False)


def test_the_first_store_keeps_every_invariant():
    audit = Audit()
    for key, value in sorted(first_pairs().items()):
        audit.take(key, value)
    audit.finish()
    assert audit.problems.count == 0


@pytest.mark.parametrize("name", ["store.txt", "store_of_first_record.txt"])
def test_every_kind_of_key_is_stored(name):
    kinds = {bytes.fromhex(line[:2])[0] for line in (RECORDS / name).read_text().splitlines()}
    later = {keys.Space.OUTBOX, keys.Space.SENT, keys.Space.RECEIVED}  # only with shards
    later |= {keys.Space.TASK} if name == "store_of_first_record.txt" else set()  # which is of format 4
    assert kinds == {*keys.Space} - {keys.Space.COMMIT} - later, "that one is of format 1"


def said(script: str) -> Iterator[list[str]]:
    """Yield the words of each line of a script, without the name of its client."""
    for section in sections(script):
        for line in section.lines:
            text = re.sub("^[a-z]+: ", "", line.removeprefix("monitor "))
            yield [word.decode("latin-1") for word in words_of(text)]


def test_every_command_is_played_with_each_of_its_words():
    played: dict[str, set[str]] = {}
    for command, *words in said("resp.txt"):
        played.setdefault(command.upper(), set()).update(word.upper() for word in words)
    assert {name for name in COMMANDS if name.decode() not in played} == set()
    missing = {
        (name, word)
        for name, entry in COMMANDS.items()
        for word in re.findall(r"\b[A-Z][A-Z-]+\b", str(entry.syntax))
        if word not in played[name.decode()]
    }
    assert missing == set()
    subcommands = {tuple(name.decode().split()) for name in RIGHTS if b" " in name}
    subcommands |= {("CLIENT", name.decode()) for name, _ in _CLIENT_SUBCOMMANDS}
    assert {(name, word) for name, word in subcommands if word not in played[name]} == set()


def test_every_route_is_played_and_refuses_another_method():
    played = set()
    for words in said("http.txt"):
        if len(words) > 1 and words[1].startswith("/"):
            played.add((words[0], words[1].partition("?")[0]))
    routes = [route for route in ROUTES if not route[1].startswith(OF_SHARDS)]
    patterns = {route: re.sub(r"\{[a-z]+\}", "[^/]+", route[1]) for route in routes}
    missing = {
        route for route, path in patterns.items() if not any(m == route[0] and re.fullmatch(path, p) for m, p in played)
    }
    assert missing == set()
    methods = {path: {method for method, known in routes if known == path} for _, path in routes}
    unrefused = {
        path
        for path, known in methods.items()
        if not any(m not in known and re.fullmatch(patterns[next(iter(known)), path], p) for m, p in played)
    }
    assert unrefused == set()


@pytest.mark.parametrize("script", ["resp.txt", "history.txt"])
def test_every_setting_is_played(script):
    assert {name for name in FIELDS if not any(name in words for words in said(script))} == set()


def test_every_tool_is_asked_for_help_and_given_what_it_does_not_take():
    lines = {tuple(words) for words in said("usage.txt")}
    for name in TOOLS:
        assert (name, "-h") in lines
        assert ("help", name) in lines
        assert any(words[0] == name and "-nonsense" in words for words in lines)


def error_codes(kind: type[MiniqueueError] = MiniqueueError) -> set[str]:
    """Return the words of all errors that a client may be told."""
    return {kind.code}.union(*map(error_codes, kind.__subclasses__()))


def test_every_error_word_is_heard_somewhere():
    heard = "".join(path.read_text() for path in RECORDS.glob("*.txt"))
    codes = {code for code in error_codes() if not re.search(rf'(-|"code":"|\b){code}[ "]', heard)}
    assert codes == UNHEARD_CODES


def test_records_are_text_and_not_too_large():
    files = sorted(RECORDS.iterdir())
    assert {path.name for path in files} == {*PLAYS, "store_of_first_record.txt"}
    assert sum(path.stat().st_size for path in files) < MAX_RECORDS_BYTES
    assert all(path.read_bytes().isascii() for path in files)


def test_a_difference_can_be_read():
    shown = difference("a\nb\nc\n", f"a\n{'x' * 2000}\nc\n" + "d\n" * 200)
    assert "-b\n" in shown
    assert max(map(len, shown.splitlines())) == MAX_LINE_CHARS + 1
    assert shown.endswith("lines more")

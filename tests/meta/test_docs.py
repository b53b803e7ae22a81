"""The documents name everything there is: a command, a setting or an error without a word about it fails here."""

import ast
import importlib.util
import inspect
import pkgutil
import re
import signal

import pytest

import miniqueue
from miniqueue import cli
from miniqueue.access.rights import COMMANDS, Right
from miniqueue.errors import MiniqueueError
from miniqueue.interrupts import Interrupted, exit_code
from miniqueue.server.asgi import replies
from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.server.config.usage import option_table
from miniqueue.server.http import subscribe as http_subscribe
from miniqueue.server.resp.commands import connection, subscribe
from miniqueue.server.resp.commands import table as resp_commands
from miniqueue.storage.format import keys, values
from miniqueue.tools import TOOLS
from tests.meta.modules import PACKAGE, ROOT
from tests.meta.tables import TABLES, replaced

README = (ROOT / "README.md").read_text()
PROTOCOL = (ROOT / "docs/protocol.md").read_text()
OPERATIONS = (ROOT / "docs/operations.md").read_text()
STORAGE_FORMAT = (ROOT / "docs/storage-format.md").read_text()
DIFFERENCES = (ROOT / "docs/differences.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
MAX_PROSE_CHARS = 112
#: The first role in the table of the protocol that has a right.
ROLE_OF = {
    Right.OPEN: "no user",
    Right.PUBLISH: "publisher",
    Right.CONSUME: "subscriber",
    Right.MONITOR: "monitor",
    Right.ADMIN: "admin",
}
HAS_SPARK = importlib.util.find_spec("pyspark") is not None  # an extra


def code_spans(text: str) -> str:
    """Return what stands between backticks, in one string with a blank around each piece."""
    return " " + "  ".join(re.findall(r"`([^`\n]+)`", text)) + " "


SPANS = code_spans(PROTOCOL)


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_tool_is_in_the_operations(name):
    assert f"\n## {name.capitalize()}" in OPERATIONS
    assert importlib.import_module(TOOLS[name].module).USAGE in OPERATIONS


@pytest.mark.parametrize("name", sorted(resp_commands.COMMANDS))
def test_every_resp_command_is_in_the_protocol(name):
    assert re.search(rf" {name.decode()}[ ,]", SPANS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_in_the_table_of_roles(name):
    table = PROTOCOL.partition("\n| role | commands | routes |\n")[2].partition("\n\n")[0]
    cells = {role: code_spans(cell) for role, cell in re.findall(r"^\| ([a-z ]+) \| (.+?) \| ", table, re.MULTILINE)}
    right, (command, *_) = COMMANDS[name].right, name.split()
    # A command for any user can check the rights of other roles itself, for each topic.
    spans = "".join(cells.values()) if right is Right.KNOWN else cells[ROLE_OF[right]]
    has_subcommands = any(other.startswith(command + b" ") for other in COMMANDS)
    is_named = f" {name.decode()} " in spans or f" {command.decode()} " in spans
    assert is_named or (name == command and has_subcommands)


@pytest.mark.parametrize("words", sorted({words for words, _ in connection._CLIENT_SUBCOMMANDS}))
def test_every_client_subcommand_is_in_the_protocol(words):
    assert f" CLIENT {words.decode()} " in SPANS


@pytest.mark.parametrize("word", sorted(subscribe._SETTLES))
def test_every_word_of_the_resp_stream_is_in_the_protocol(word):
    stream = PROTOCOL.partition("### Streams")[2].partition("\n### ")[0]
    assert f" {word.decode()} " in code_spans(stream)


@pytest.mark.parametrize("word", ["INIT", "ACK", "NACK", "BACK", "DACK", "REPLY"])
def test_every_word_of_the_http_stream_is_in_the_protocol(word):
    assert f'"{word}"' in inspect.getsource(http_subscribe)
    assert re.search(rf'`"{word}( seconds| text)?"`', PROTOCOL)


def routes() -> list[str]:
    """Return the paths that the applications in `server` serve."""
    source = "\n".join(path.read_text() for path in sorted((PACKAGE / "server").rglob("*.py")))
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return sorted({string for string in strings if re.fullmatch(r"(/[a-z]+|/\{topic\}|/\{id\}|/\{name\})+", string)})


@pytest.mark.parametrize("path", routes())
def test_every_route_is_in_the_protocol(path):
    assert re.search(rf" ((POST|GET|DELETE|PUT) )?{re.escape(path)} ", SPANS)


def test_the_routes_are_found_at_all():
    assert {"/publish/{topic}", "/{topic}", "/readyz"} <= set(routes())


@pytest.mark.parametrize("status", sorted(set(replies.STATUS.values()) | {200, 201, 404, 405}))
def test_every_http_status_is_in_the_protocol(status):
    assert re.search(rf"\b{int(status)}\b", PROTOCOL.partition("## HTTP")[2])


def error_classes() -> list[type[MiniqueueError]]:
    for module in pkgutil.walk_packages(miniqueue.__path__, "miniqueue."):
        is_there = HAS_SPARK or not module.name.startswith("miniqueue.spark")
        if is_there and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    classes = [MiniqueueError]
    for cls in classes:
        classes += cls.__subclasses__()
    return [cls for cls in classes if cls.__module__.startswith(("miniqueue.", "miniqueue_client."))]


def error_table() -> str:
    return PROTOCOL.partition("\n## Errors")[2].partition("\n## ")[0]


@pytest.mark.parametrize("code", sorted({cls.code for cls in error_classes()}))
def test_every_error_word_is_in_the_protocol(code):
    assert f"\n| `{code}` | " in error_table()


@pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
def test_the_error_words_have_the_status_that_the_protocol_says(cls):
    row = re.search(rf"\n\| `{cls.code}` \| ([^|]+) \|", error_table())
    assert row
    statuses = re.findall(r"\d{3}", row[1])  # none if the error is sent on a stream, or over RESP only
    assert not statuses or str(int(replies.status_of(cls.__new__(cls)))) in statuses


def test_the_exit_codes_are_those_of_the_protocol():
    table = PROTOCOL.partition("## Exit codes")[2].partition("\n## ")[0]
    assert set(map(int, re.findall(r"\n\| (\d+) \|", table))) == {
        *(0, cli.PROBLEMS, cli.INTERRUPTED),
        *(exit_code(Interrupted(number)) for number in (signal.SIGHUP, signal.SIGTERM)),
        *(code for _, code in cli.EXIT_CODES),
    }


@pytest.mark.parametrize("name", sorted(TABLES))
def test_tables_are_made_from_the_rows_of_the_code(name):
    document, table = (ROOT / TABLES[name].path).read_text(), TABLES[name].make()
    assert replaced(document, table) == document, "python -m tests.meta.tables writes it"


def test_the_readme_has_the_table_of_settings():
    assert option_table() in README


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_in_the_readme(setting):
    assert setting.flag in README
    assert setting.variable in README


@pytest.mark.parametrize("number", range(1, 20))
def test_each_of_the_known_bugs_is_among_the_differences(number):
    assert f"\n| {number} | " in DIFFERENCES


@pytest.mark.parametrize("module", [keys, values], ids=lambda module: module.__name__)
def test_the_grammar_of_the_store_is_that_of_the_code(module):
    grammar = re.findall(r"^ +(\w+ += .*)$", module.__doc__, re.MULTILINE)
    assert len(grammar) >= 7
    assert [line for line in grammar if not line.startswith("key ") and line not in STORAGE_FORMAT] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        path, _, anchor = target.partition("#")
        if "://" not in target:
            linked = (document.parent / path) if path else document
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked.read_text()), target


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(document):
    named = re.findall(r"`((?:miniqueue|tests|docs|examples|benchmarks)/[\w./-]*)(?:::\w+)?`", document.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_that_are_named_exist(document):
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", document.read_text())
    assert [(file, name) for file, name in named if f"def {name}(" not in (ROOT / file).read_text()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_lines_of_prose_are_short(document):
    prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > MAX_PROSE_CHARS] == []

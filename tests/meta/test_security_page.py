"""The page on security can be followed: its commands are carried out or parsed, and what it names is there."""

import configparser
import re
import shlex
import ssl
import subprocess
from contextlib import suppress

import pytest

from miniqueue.server.asgi import refusals, replies
from miniqueue.server.config.config import Config, load
from miniqueue.server.resp import refusals as resp_refusals
from miniqueue.server.security.certificates import server_tls_context
from miniqueue.server.security.exposure import check_exposure
from miniqueue.tools import TOOLS, user
from tests.acceptance.tools import needs
from tests.meta.modules import ROOT
from tests.meta.test_docs import PROTOCOL, code_spans, error_classes

PAGE = (ROOT / "docs/security.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SCRIPTS = [text for language, text in BLOCKS if language == "sh"]
UNIT = ROOT / "examples/miniqueue.service"
INSTALLED = "/opt/miniqueue/bin/miniqueue"
#: Far more than anything may hold the event loop; a watchdog that is faster than that would kill a broker at work.
MAX_HOLD_SECONDS = 10


def arguments(line: str) -> list[str] | None:
    """Return what a line of a script tells miniqueue, through docker and runuser too; None for another program."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["docker", "run"]:
        names = [n for n, word in enumerate(words) if word == "miniqueue" and words[n - 1] != "--name"]
        return words[names[0] + 1 :]  # behind the image
    if words[:1] == ["runuser"]:
        words = words[words.index("--") + 1 :]
    return words[1:] if words[:1] in (["miniqueue"], [INSTALLED]) else None


def check_flags(flags: list[str]) -> None:
    """Check that a broker would start with these flags, as far as settings go."""
    config = load(flags, {})
    assert isinstance(config, Config)
    check_exposure(config)


def told() -> list[list[str]]:
    lines = [line for script in SCRIPTS for line in script.splitlines()]
    return [words for words in map(arguments, lines) if words is not None]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_one_for_a_shell(script):
    subprocess.run(["bash", "-n", "-c", script], check=True)


def test_every_block_says_what_it_is():
    assert {language for language, _ in BLOCKS} <= {"sh", "toml", "ini"}, "commands belong in sh"
    assert len(told()) >= 8


@pytest.mark.parametrize("words", [words for words in told() if words[0] not in TOOLS], ids=" ".join)
def test_a_broker_takes_the_flags(words):
    check_flags(words)


@pytest.mark.parametrize("words", [words for words in told() if words[0] in TOOLS], ids=" ".join)
def test_a_tool_does_as_it_is_told(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words[0] == "user"
    assert user.run(words[1:], {}) == 0
    assert (tmp_path / "users.toml").exists()


@needs("openssl", "bash")
def test_the_certificate_for_several_machines_is_trusted_by_each_of_its_names(tmp_path):
    (script,) = (script for script in SCRIPTS if "openssl req -x509" in script)
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, check=True)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("ca-key.pem", "queue-key.pem")} == {0o600}
    server = server_tls_context(tmp_path / "queue.pem", tmp_path / "queue-key.pem", protocols=(), client_ca=None)
    client = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    for name in ("queue.example.org", "localhost", "192.0.2.7"):
        shake_hands(client, server, name)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'other\.example\.org'"):
        shake_hands(client, server, "other.example.org")


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Connect a client to a server of that name, in memory; raises SSLError when one refuses the other."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(to_client, to_server, server_hostname=name)
    called = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (caller, called, caller, called):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert caller.version() == called.version() == "TLSv1.3"


def test_files_of_this_project_in_scripts_are_there():
    named = re.findall(r"(?<!\S)((?:\.ci|examples)/[\w./-]+)", "".join(SCRIPTS))
    assert len(named) >= 3
    assert [name for name in named if not (ROOT / name).exists()] == []


def unit(text: str) -> configparser.SectionProxy:
    """Return the settings of a service; of those that stand there more than once, the last."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign] - how one keeps the case of the names
    parser.read_string(text)
    return parser["Service"]


@pytest.mark.parametrize("text", [UNIT.read_text(), *[text for language, text in BLOCKS if language == "ini"]])
def test_the_service_starts_with_flags_that_exist(text):
    program, *flags = shlex.split(unit(text)["ExecStart"])
    assert program == INSTALLED
    check_flags(flags)


def test_the_service_may_do_what_the_page_says_and_no_more():
    service = unit(UNIT.read_text())
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
    assert (service["User"], service["StateDirectoryMode"], service["UMask"]) == ("miniqueue", "0700", "0077")
    assert (service["LimitCORE"], service["CapabilityBoundingSet"], service["ProtectSystem"]) == ("0", "", "strict")
    assert int(service["TimeoutStopSec"]) > 10, "a stop may take as long, see the protocol"
    assert (service["IPAddressDeny"], service["IPAddressAllow"]) == ("any", "localhost")
    for name in ("NoNewPrivileges", "PrivateDevices", "PrivateMounts", "MemoryDenyWriteExecute", "RestrictNamespaces"):
        assert service[name] == "yes"
    assert service["ProtectHome"] == "yes"
    assert {"MemoryMax", "LimitNOFILE", "TasksMax"} <= set(service)


def test_the_service_reports_its_states():
    service = unit(UNIT.read_text())
    assert (service["Type"], service["KillMode"], service["TimeoutStartSec"]) == ("notify", "mixed", "infinity")
    assert int(service["WatchdogSec"]) > MAX_HOLD_SECONDS


def test_a_person_is_asked_where_starting_again_does_not_help():
    codes = unit(UNIT.read_text())["RestartPreventExitStatus"].split()
    table = PROTOCOL.partition("## Exit codes")[2]
    assert codes == ["65", "73", "77", "78"]
    assert all(f"\n| {code} | " in table for code in codes)


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = PAGE.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    lines = [line.replace("\\|", "") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("heading", ["Over HTTP", "Over RESP"])
def test_answers_to_bad_input_are_those_of_the_protocol(heading):
    known = set(re.findall(r"[A-Z_]{3,}", code_spans(PROTOCOL))) | {cls.code for cls in error_classes()}
    known |= set(replies.CODES.values()) | {"STREAM_CLOSED", "FLOW_CONTROL_ERROR"}  # the last two: RFC 9113
    assert len(rows(heading)) > 15
    for _, answer, *_ in rows(heading):
        named = re.findall(r"`([A-Z_]{3,})[` ]", answer)
        assert set(named) <= known, answer


@pytest.mark.parametrize(("heading", "reasons"), [("Over HTTP", refusals.Reason), ("Over RESP", resp_refusals.Reason)])
def test_every_reason_to_refuse_is_in_the_table(heading, reasons):
    found = {reason for *_, cell in rows(heading) for reason in re.findall(r"`(\w+)`", cell)}
    assert found == set(reasons)
    assert {len(row) for row in rows(heading)} == {3}


def test_hostile_inputs_have_a_status_that_the_protocol_names():
    for _, answer, _ in rows("Over HTTP"):
        for status in re.findall(r"\b[45]\d\d\b", answer):
            assert re.search(rf"\b{status}\b", PROTOCOL), answer

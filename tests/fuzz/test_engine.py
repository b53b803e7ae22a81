"""The engine finds what it is for: planted in toys, a bug of each kind; in miniqueue, one for each target."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from random import Random
from unittest.mock import patch

import orjson
import pytest

from miniqueue.access import users_text
from miniqueue.broker.transactions import checks
from miniqueue.commands.applying import export
from miniqueue.core.message import names
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.core.options import topic_choice
from miniqueue.server.config import sources
from miniqueue.server.http import subscribe
from miniqueue.server.resp.commands import table as resp_commands
from miniqueue.storage.format import values
from miniqueue.storage.leveldb.files import table
from miniqueue.tools.lines import messages
from miniqueue.wire import json_lines, resp_replies
from tests.fuzz import engine, soak
from tests.fuzz.engine import FoundError, Target, attempt, fuzz, inputs, literal, shrunk
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS
from tests.meta.modules import ROOT


def number(chance: Random) -> bytes:
    return b"%d" % chance.getrandbits(20)


def toy(check) -> Target:
    return Target("toy", number, check)


def found(check) -> str:
    with pytest.raises(FoundError) as caught:
        fuzz(toy(check), 7, input_count=2000)
    return str(caught.value)


# --- one of each kind ----------------------------------------------------------------------------------------


def test_an_error_that_is_not_documented_is_found_with_seed_and_input():
    text = found(lambda content: attempt(int, content, documented=(KeyError,)))
    assert re.search(r"fuzz toy: seed=7, input \d+: ValueError: ", text)
    assert re.search(r"TARGETS\['toy'\]\.check\(b.*\)", text)


def test_an_error_that_is_documented_is_none():
    assert fuzz(toy(lambda content: attempt(int, content, documented=(ValueError,))), 7, input_count=1000)


def test_an_exit_is_found():
    def check(content):
        if b"\0" in content:
            raise SystemExit(1)

    assert "SystemExit: 1" in found(check)


def test_a_wrong_round_trip_is_found():
    def check(content):
        text = content.decode("latin-1")
        assert text.encode("ascii", "replace") == content

    assert "AssertionError" in found(check)


def test_memory_that_every_input_leaves_in_use_is_found():
    kept = []
    assert "bytes in use, every time" in found(lambda content: kept.append(b"x" * 300 + content))


def test_a_cache_that_is_full_at_some_time_is_no_growth():
    kept: dict[int, bytes] = {}

    def check(content):
        kept[len(kept) % 200] = b"x" * 300 + content

    assert fuzz(toy(check), 7, input_count=1000)


def test_an_input_that_takes_much_memory_is_found():
    text = found(lambda content: bytes(50 << 20 if b"7" in content else 0))
    assert re.search(r"input \d+: \d+ bytes take 52,[\d,]+ while they are looked at\n", text)


def test_a_line_that_names_the_last_partition_there_can_be_takes_no_more_than_they_may(monkeypatch):
    monkeypatch.setattr(engine, "WINDOW_INPUTS", 2)
    line = b'{"topic":"t","id":"%d-1","text":"x"}\n' % (MAX_PARTITIONS - 1)
    fuzz(replace(TARGETS["message_lines"], make=lambda _: line, tokens=()), 7)
    with pytest.raises(FoundError, match="while they are looked at"):
        fuzz(replace(TARGETS["message_lines"], make=lambda _: line, tokens=(), asked_bytes=lambda _: 0), 7)


def test_memory_that_is_not_pythons_is_found(monkeypatch):
    sizes = iter([1 << 20, 100 << 20])
    monkeypatch.setattr(engine, "_rss_bytes", lambda: next(sizes))
    assert "the process grew by 103,809,024 bytes" in found(len)


def test_an_input_that_takes_long_is_found(monkeypatch):
    monkeypatch.setattr(engine, "MAX_SECONDS", -1.0)
    assert re.search(r"\d+ bytes took 0\.0 s", found(len))


# --- what makes a finding useful ------------------------------------------------------------------------------


DIGEST = """
import hashlib, itertools
from tests.fuzz.engine import inputs
from tests.fuzz.targets import TARGETS
for name, target in TARGETS.items():
    made = itertools.islice(inputs(target, 1), 100)
    print(name, hashlib.sha256(b"\\0".join(made)).hexdigest())
"""


@pytest.mark.slow
def test_the_same_seed_makes_the_same_inputs_in_every_process():
    first, second = (
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for hash_seed in ("1", "2")
    )
    assert len(first) == len(TARGETS)
    assert first == second


def test_another_seed_makes_other_inputs():
    for target in TARGETS.values():
        one, other = (list(islice(inputs(target, seed), 30)) for seed in (1, 2))
        assert one != other


def test_a_finding_is_cut_down():
    def check(content):
        assert not (b"a" in content and b"z" in content)

    assert shrunk(check, b"the quick abc and the lazy xyz" * 20, AssertionError) in (b"az", b"za")


@pytest.mark.parametrize("size", [0, 10, 51_200])
def test_an_input_is_told_as_python_that_makes_it(size):
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    text = literal(content)
    assert len(text) < 2000
    namespace: dict[str, object] = {}
    exec(f"import base64, zlib; made = {text}", namespace)
    assert namespace["made"] == content


def test_mutations_are_of_every_kind():
    chance = Random(3)
    changed = {mutated(chance, b"number 12 of 345", (b"TOKEN",), number) for _ in range(2000)}
    assert len(changed) > 1000
    for piece in (b"TOKEN", b"18446744073709551615", b"\xff\xff\xff\xff", b"\r\n"):
        assert any(piece in content for content in changed)
    assert {len(content) > 16 for content in changed} == {True, False}


# --- one for each target --------------------------------------------------------------------------------------


def _seal_without_payload(*parts: bytes, **options: bytes) -> bytes:
    return _SEAL(parts[0], **options)


def _read_behind_the_end(file, handle):
    return table._read(file, handle._replace(size_bytes=handle.size_bytes + 5))


_SEAL = values.seal
#: The target that must find it, and what of miniqueue is replaced by what.
PLANTED = {
    "an error of two lines": ("resp_reading", resp_replies, "_line", lambda text: text.encode() + b"\r\n"),
    "commands that must be UTF-8": ("resp_connections", resp_commands, "shown", bytes.decode),
    "delays that Python takes": ("http_requests", subscribe, "parse_seconds", float),
    "an error of orjson's": ("json_streams", json_lines, "_decode_command", orjson.loads),
    "names that are too long": ("words", names, "MAX_TOPIC_BYTES", 1 << 20),
    "payloads that get lost": ("stored_values", values, "seal", _seal_without_payload),
    "blocks behind the end": ("leveldb_files", table, "_read_block", _read_behind_the_end),
    "raw text for a terminal": ("options", sources, "escape", str),
    "strings that are not escaped": ("credentials", users_text, "_string", '"{}"'.format),
    "numbers that are none": ("message_lines", messages, "number_of", lambda found, maximum=0: found),
    "acts that are done unchecked": ("transactions", checks.Check, "run", lambda self, acts: None),
    "an export without escapes": ("topic_files", export, "_text", lambda text: f'"{text}"'),
    "stars in the middle": ("choices", topic_choice, "_beginning", lambda pattern: pattern.replace(b"*", b"")),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_bug_planted_in_miniqueue_is_found(bug):
    target, owner, attribute, replacement = PLANTED[bug]
    with patch.object(owner, attribute, replacement), pytest.raises(FoundError):
        fuzz(TARGETS[target], 1, input_count=TARGETS[target].quick_inputs)


def test_a_bug_is_planted_for_each_target():
    assert {target for target, *_ in PLANTED.values()} == TARGETS.keys()


# --- the runs of the soak -------------------------------------------------------------------------------------


def test_the_soak_tells_of_a_clean_run(capsys):
    assert soak.main(["words", "--seconds", "0", "--seed", "5"]) == 0
    assert re.fullmatch(r"fuzz words: seed=5, \d+ inputs, \d+/s, nothing found\n", capsys.readouterr().out)


def test_the_soak_tells_of_a_finding(capsys, monkeypatch):
    monkeypatch.setitem(TARGETS, "words", toy(lambda content: 1 // 0))
    assert soak.main(["words", "--seconds", "0", "--seed", "5"]) == 1
    assert "seed=5, input 1: ZeroDivisionError" in capsys.readouterr().out


def test_the_command_runs_several_targets():
    names = list(TARGETS)[:2]
    command = [sys.executable, "-m", "tests.fuzz.soak", *names, "--seconds=0.1", "--seed=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[1].rstrip(":") for line in done.stdout.splitlines()] == names


@pytest.mark.slow
def test_the_soak_runs_each_target_in_a_process():
    with soak.running(["words", "nothing"], 0, 5) as runs:
        is_good, said = runs["words"].result()
        assert is_good, said
        assert said.startswith("fuzz words: seed=5, ")
        is_good, said = runs["nothing"].result()
        assert not is_good
        assert said.endswith("fuzz nothing: seed=5: it crashed")


def test_the_soak_refuses_unknown_targets(capsys):
    with pytest.raises(SystemExit):
        soak.main(["nothing"])
    assert "no such target: nothing" in capsys.readouterr().err

"""`miniqueue check` on damaged stores: it tells of all that a broker would meet, and changes no byte."""

import hashlib
import shutil
from itertools import chain

import pytest

from miniqueue.errors import MiniqueueError
from miniqueue.tools import check
from tests.durability.damage.outcome import Outcome, judge
from tests.durability.damage.plan import KINDS, damages, make_samples, other_damages


def every_byte(directory):
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_check_tells_of_damage_and_changes_nothing(tmp_path, capsys):
    told, quiet = 0, []
    for sample in make_samples(tmp_path):
        cases = list(chain(*(damages(sample, kind) for kind in KINDS), other_damages(sample)))
        for damage in cases[:: len(cases) // 40]:
            copy = shutil.copytree(sample.directory, tmp_path / "copy")
            damage.inflict(copy)
            before = every_byte(copy)
            is_told = tells(copy, capsys)
            assert every_byte(copy) == before, damage.name
            if judge(sample, copy).outcome is not Outcome.COMPLETE and not is_told:
                quiet.append(f"{sample.name}: {damage.name}")
            told += is_told
            shutil.rmtree(copy)
    assert quiet == []
    assert told > 100


def tells(directory, capsys):
    try:
        code = check.run(["-db", str(directory)], {})
    except MiniqueueError:
        return True
    return code != 0 or "note: " in capsys.readouterr().out

"""The short form of `make soak ARGS=transfers`."""

from pathlib import Path

import pytest

from tests.durability.crash.transfers import TransferLoop

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

KILLS = 12
SEED = 20_263


def test_messages_are_in_another_shard_once_whichever_process_is_killed(tmp_path: Path):
    counted = TransferLoop(tmp_path, SEED).run(KILLS)
    assert not counted.findings, counted
    assert counted.moved > 0, counted

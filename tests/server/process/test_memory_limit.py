"""How much memory there is for the process."""

import os

import pytest

from miniqueue.server.process import memory_limit

MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("files", "own", "wanted"),
    [
        ({"memory.max": "max"}, "0::/", MACHINE_BYTES),
        ({"memory.max": "104857600"}, "0::/", 100 << 20),
        ({"a/memory.max": "max", "a/b/memory.max": "1048576"}, "0::/a/b", 1 << 20),
        ({"a/memory.max": "1048576", "a/b/memory.max": "max"}, "0::/a/b", 1 << 20),
        ({"memory/a/memory.limit_in_bytes": "2097152"}, "4:cpu,memory:/a\n1:name=x:/y", 2 << 20),
        ({"memory.max": str(2 * MACHINE_BYTES)}, "0::/", MACHINE_BYTES),
        ({}, None, MACHINE_BYTES),
    ],
)
def test_it_is_the_lowest_limit_of_the_machine_and_its_control_groups(files, own, wanted, tmp_path):
    for name, text in files.items():
        file = tmp_path / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    if own is not None:
        (tmp_path / "own").write_text(own + "\n")
    assert memory_limit.available_bytes(tmp_path / "cgroup", tmp_path / "own") == wanted


def test_the_memory_of_this_process_is_more_than_nothing():
    assert 1 << 20 < memory_limit.own_bytes() < MACHINE_BYTES

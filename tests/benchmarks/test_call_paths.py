"""The call paths of a message: what counts, that counts are the same in each run, and how they are shown."""

import subprocess
import sys

import pytest

from benchmarks.call_paths import PATHS, Call, Figures, figures_of, lines_of, table, walk


def calls_in(*files: str) -> list[Call]:
    return [Call(file, "f", 0, "MainThread") for file in files]


def test_the_first_file_counts_as_a_change_and_calls_within_a_file_do_not():
    assert figures_of(calls_in("a", "a", "b", "a", "c", "c", "b")) == Figures(calls=7, changes=5, returns=2, files=3)


@pytest.mark.parametrize("name", PATHS)
def test_a_path_is_the_same_in_each_run(name):
    assert lines_of(walk(name)) == lines_of(walk(name))


def test_a_path_shows_the_threads_of_the_store_after_the_loop_handed_over():
    lines = lines_of(walk("commit"))
    (handed_over,) = (number for number, line in enumerate(lines) if "Worker.submit" in line)
    (reported,) = (number for number, line in enumerate(lines) if "_settle" in line)
    on_writer = [number for number, line in enumerate(lines) if line.endswith("[miniqueue-store-writer]")]
    assert handed_over < on_writer[0] <= on_writer[-1] < reported
    assert not any("[miniqueue-store-writer]" in line for line in lines[reported:])


def test_profiling_is_off_after_a_walk():
    walk("publish")
    assert sys.getprofile() is None


def test_a_table_shows_the_figures_of_two_trees_and_their_sums():
    before, after = {"publish": Figures(9, 7, 3, 4), "ack": Figures(1, 1, 0, 1)}, {"publish": Figures(8, 6, 2, 4)}
    lines = table({**after, "ack": Figures(1, 1, 0, 1)}, before)
    assert [line.split() for line in lines] == [
        ["path", "calls", "changes", "returns", "files"],
        ["publish", *["9", ">", "8", "7", ">", "6", "3", ">", "2", "4", ">", "4"]],
        ["ack", *["1", ">", "1", "1", ">", "1", "0", ">", "0", "1", ">", "1"]],
        ["sum", *["10", ">", "9", "8", ">", "7", "3", ">", "2", "5", ">", "5"]],
    ]


def test_a_path_can_be_printed():
    command = [sys.executable, "-m", "benchmarks.call_paths", "--path", "publish"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert "data_received" in lines[0]
    assert any("Committer.add" in line for line in lines)

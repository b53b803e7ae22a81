"""What is printed of the costs of each way to publish and to settle."""

from benchmarks.modes import SYNCS, micros, table


def test_the_least_time_of_all_rounds_counts_and_its_ratio_to_that_of_the_base():
    rounds = [
        {sync: {"PUBLISH": 100.0, "batch": 20.0} for sync in SYNCS},
        {sync: {"PUBLISH": 200.0, "batch": 5.0} for sync in SYNCS},
    ]
    assert list(table(rounds, "PUBLISH"))[2:] == [
        "| PUBLISH | 100 | 1.00 | 100 | 1.00 | 100 | 1.00 |",
        "| batch | 5 | 0.05 | 5 | 0.05 | 5 | 0.05 |",
    ]


def test_a_ratio_is_to_the_mode_that_syncs_always():
    times = {"always": {"PUBLISH": 100.0}, "interval": {"PUBLISH": 50.0}, "never": {"PUBLISH": 40.0}}
    assert list(table([times], "PUBLISH"))[2:] == ["| PUBLISH | 100 | 1.00 | 50 | 0.50 | 40 | 0.40 |"]


def test_a_time_is_the_median_for_each_message_without_that_of_the_first_act(monkeypatch):
    durations, now = iter([100.0, 3.0, 50.0, 2.0]), [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def act() -> None:
        now[0] += next(durations)

    assert micros((act, 10), 54.0) == 3 / 10 * 1e6

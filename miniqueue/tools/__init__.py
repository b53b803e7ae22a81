"""The sub-commands of `miniqueue`: for the operator of a store, one process for each call."""

from types import MappingProxyType
from typing import NamedTuple


class Tool(NamedTuple):
    """A sub-command.

    Attributes:
      summary: one line for the usage.
      module: has `USAGE` and `run(words, environ)`, which returns the exit code; imported when it is needed.
    """

    summary: str
    module: str


TOOLS = MappingProxyType(
    {
        "check": Tool("verify every invariant of a store that is not in use", "miniqueue.tools.check"),
        "backup": Tool("copy the store, also while the broker runs", "miniqueue.tools.backup"),
        "restore": Tool("make a store of a backup, after checking it", "miniqueue.tools.restore"),
        "export": Tool("write messages as JSON lines, also while the broker runs", "miniqueue.tools.export"),
        "import": Tool("make topics of JSON lines", "miniqueue.tools.import_lines"),
        "pipeline": Tool("load, archive and replay files with Spark", "miniqueue.tools.pipeline"),
        "trace": Tool("tell what happened to a message", "miniqueue.tools.trace"),
        "user": Tool("add, remove and list users, and change their secrets", "miniqueue.tools.user"),
    }
)

"""The sub-commands of `miniqueue`, for the operator of a store; each call is a process of its own.

Each module here that has a `run` is one sub-command; `TOOLS` lists them. Read `arguments`, which all of them use, and
`source`, through which backup and export read a store. `audit` checks a store, `exporting` and `importing` translate a
store to and from JSON lines, whose form is in `lines`, `resharding` divides a store among another number of shards, and
`spark` runs Spark jobs. Only `cli` imports this package.
"""

from types import MappingProxyType
from typing import NamedTuple


class Tool(NamedTuple):
    """A sub-command.

    Attributes:
      summary: one line for the usage.
      module: module with `USAGE` and `run(words, environ)`, which returns the exit code; imported only when it runs.
    """

    summary: str
    module: str


TOOLS = MappingProxyType(
    {
        "check": Tool("verify every invariant of a store that is not in use", "miniqueue.tools.check"),
        "backup": Tool("copy the store, even while the broker runs", "miniqueue.tools.backup"),
        "restore": Tool("create a store from a backup, after checking it", "miniqueue.tools.restore"),
        "export": Tool("write messages as JSON lines, even while the broker runs", "miniqueue.tools.export"),
        "import": Tool("create topics from JSON lines", "miniqueue.tools.import_"),
        "pipeline": Tool("load, archive, and replay files with Spark", "miniqueue.tools.spark.pipeline"),
        "reshard": Tool("copy a store to one with another number of shards", "miniqueue.tools.reshard"),
        "user": Tool("add, remove, and list users, and change their secrets", "miniqueue.tools.user"),
    }
)

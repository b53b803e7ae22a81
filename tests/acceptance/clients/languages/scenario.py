"""The scenario of the programs: what each of them does, in this order, and what it says of it.

publish     publishes one message                                    OK
pipeline    publishes nine with the client's own pipeline            OK ×9
receive     receives all ten                                         first m0 … m8
ack         acknowledges all with one command                        OK ×10
exec        receives a message; in one transaction, publishes it     OK OK OK
            to two other topics and acknowledges it
unknown     a transaction with an unknown command                    the error; nothing is published
refused     a transaction with a receipt that is settled             the error; nothing is published
discard     gives a transaction up                                   OK
restart     publishes one more, then waits for a line: the broker is killed, and another is started
again       receives it with the same client, acknowledges it,       third OK OK
            and publishes one more
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

HERE = Path(__file__).parent
NODE_MODULES = HERE.parents[1] / "node_modules"

#: Far longer than all programs together take to build and to run; one that hangs is killed then.
PROGRAM_SECONDS = 300

#: What the programs say, as regular expressions. A client that reads the replies to the commands of a transaction
#: reports the first error among them; others report that of EXEC.
SAID: Final = (
    r"publish OK",
    r"pipeline" + " OK" * 9,
    r"receive first m0 m1 m2 m3 m4 m5 m6 m7 m8",
    r"ack" + " OK" * 10,
    r"exec OK OK OK",
    r"unknown (?!nothing was refused).*(EXECABORT|unknown command|discarded).*",
    r"refused {refused}",
    r"discard OK",
    r"restart",
    r"again third OK OK",
)


class Program(NamedTuple):
    """A program, and how it is built and run.

    Attributes:
      file: its source.
      package: where the client comes from, `pip`, `npm` or `deb`, and the name of its package there.
      run: the command before the name of the source, or of what was built; the first word must be installed.
      build: the command that builds it, if it has to be built; before the names of both.
      libraries: what follows these names.
      refused: how the client reports that EXEC is refused.
    """

    file: str
    package: str
    run: Sequence[str] = ()
    build: Sequence[str] = ()
    libraries: Sequence[str] = ()
    refused: str = r"(?!nothing was refused).*NOLEASE.*"

    @property
    def missing(self) -> str:
        """What is not installed; empty if nothing is missing."""
        command = [*self.run, *self.build][:1]
        return "" if self.version and all(map(shutil.which, command)) else f"{self.package}, {' '.join(command)}"

    @property
    def said(self) -> list[str]:
        """What the program says, as regular expressions."""
        return [pattern.replace("{refused}", self.refused) for pattern in SAID]

    @property
    def version(self) -> str:
        """The version of the client, as its authors write it; empty if it is not installed."""
        kind, name = self.package.split()
        if kind == "pip":
            return version(name)
        if kind == "npm":
            described = NODE_MODULES / name / "package.json"
            return str(json.loads(described.read_text())["version"]) if described.exists() else ""
        query = ["dpkg-query", "--show", "--showformat", "${Version}", name]
        if shutil.which(query[0]) is None:
            return ""
        found = subprocess.run(query, capture_output=True, text=True, check=False).stdout
        return found.rpartition(":")[2].partition("-")[0].partition("+")[0].partition("~")[0]

    def start(self, directory: Path, port: int, topic: str, protocol: int) -> "subprocess.Popen[str]":
        """Build it in `directory`, if it has to be built, and start it; raises CalledProcessError."""
        program = str(HERE / self.file)
        if self.build:
            built = str(directory / Path(self.file).stem)
            variables = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(directory / "go")}
            command = [*self.build, "-o", built, program, *self.libraries]
            subprocess.run(command, check=True, env=os.environ | variables, timeout=PROGRAM_SECONDS)
            program = built
        return subprocess.Popen(
            [*self.run, program, str(port), topic, str(protocol)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


_GO = ("go", "build")
_GCC = ("gcc", "-O1", "-Wall", "-Werror")

#: The programs, by the name of the client.
PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "redis-py": Program("redis_py.py", "pip redis", (sys.executable,)),
        "node-redis": Program("node_redis.mjs", "npm redis", ("node",)),
        "ioredis": Program("ioredis.mjs", "npm ioredis", ("node",)),
        "go-redis": Program("go_redis.go", "deb golang-gopkg-redis.v5-dev", build=_GO),
        "redigo": Program("redigo.go", "deb golang-github-gomodule-redigo-dev", build=_GO),
        "redis-rb": Program("redis_rb.rb", "deb ruby-redis", ("ruby",)),
        "phpredis": Program(
            "phpredis.php", "deb php-redis", ("php",), refused=r"(socket error on read|read error on connection).*"
        ),
        "Predis": Program("predis.php", "deb php-predis", ("php",)),
        "hiredis": Program("hiredis.c", "deb libhiredis-dev", build=_GCC, libraries=("-lhiredis",)),
        "Redis.pm": Program("redis_perl.pl", "deb libredis-perl", ("perl",)),
        "redis-lua": Program("redis_lua.lua", "deb lua-redis", ("lua5.1",)),
    }
)
#: The programs that also speak version 3 of RESP.
RESP3: Final = ("redis-py", "node-redis")

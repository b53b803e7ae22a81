"""The `miniqueue` command: runs the broker or a tool, and turns errors into exit codes.

    0   stopped by a signal, or printed help or the version; a tool: done
    1   a tool: the store has problems
    65  the store is damaged, or its directory contains something else; a tool: a line is invalid
    69  a port is in use or cannot be listened on; a tool: the broker cannot be reached
    70  the store failed and turned out to be damaged, or miniqueue has a bug
    71  the store cannot be opened for another reason, such as missing permissions or a full disk
    73  another process has the store open; a tool: its output already exists
    77  the certificate or its key cannot be used
    78  the configuration is invalid
    129 a tool was interrupted by SIGHUP
    130 a tool, or a startup, was interrupted by Ctrl-C
    143 a tool, or a startup, was interrupted by SIGTERM

The numbers are those of sysexits.h if one matches.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence

from miniqueue import __version__
from miniqueue.errors import (
    CertificateError,
    ClientError,
    ConfigError,
    CorruptionError,
    FormatVersionError,
    InternalError,
    InvalidLineError,
    ListenError,
    MiniqueueError,
    NotAStoreError,
    NotEmptyError,
    OutcomeUnknownError,
    StorageError,
    StoreFailedError,
    StoreInUseError,
)
from miniqueue.interrupts import Interrupts, admit_hangup, exit_code
from miniqueue.server.config.config import Config, Question, load
from miniqueue.server.config.service_variables import service_variables
from miniqueue.server.config.usage import usage
from miniqueue.server.process import runtime
from miniqueue.tools import TOOLS

#: The exit code of an error is that of the first class in this list to which it belongs.
EXIT_CODES: tuple[tuple[type[MiniqueueError], int], ...] = (
    (CertificateError, 77),
    (ConfigError, 78),
    (ListenError, 69),
    (ClientError, 69),
    (StoreFailedError, 70),
    (StoreInUseError, 73),
    (NotEmptyError, 73),
    (CorruptionError, 65),
    (FormatVersionError, 65),
    (NotAStoreError, 65),
    (InvalidLineError, 65),
    (StorageError, 71),
    (OutcomeUnknownError, 70),
    (InternalError, 70),
)


PROBLEMS = 1
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run the command and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    environ = os.environ if environ is None else environ
    try:
        with Interrupts():
            return _run(argv, environ)
    except KeyboardInterrupt as exc:  # in a tool, or before the broker handles signals
        return exit_code(exc)


def _run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    try:
        if len(argv) == 2 and argv[0] == "help" and argv[1] in TOOLS:
            return _run_tool(argv[1], ["-h"], environ)
        if argv and argv[0] in TOOLS:
            return _run_tool(argv[0], argv[1:], environ)
        config = load(argv, environ)
        if isinstance(config, Question):
            sys.stdout.write(_help() if config is Question.HELP else f"miniqueue {__version__}\n")
            return 0
        _serve(config, service_variables(environ))
    except MiniqueueError as exc:
        return _report(exc)
    return 0


def _help() -> str:
    return usage({name: tool.summary for name, tool in TOOLS.items()})


def _run_tool(name: str, words: Sequence[str], environ: Mapping[str, str]) -> int:
    admit_hangup()
    try:
        code: int = importlib.import_module(TOOLS[name].module).run(words, environ)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        # Otherwise the flush at the end of the process would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as exc:
        raise StorageError(str(exc)) from exc
    return code


def _serve(config: Config, ignored_variables: Sequence[str]) -> None:
    with runtime.without_garbage_collection():
        from miniqueue.server.run import run  # noqa: PLC0415 - not loaded for help and configuration errors

        run(config, ignored_variables)


def _report(error: MiniqueueError) -> int:
    problems = error.problems if isinstance(error, ConfigError) else [str(error)]
    for problem in problems:
        print(f"miniqueue: {problem}", file=sys.stderr)
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)

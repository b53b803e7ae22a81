"""The `miniqueue` command: runs the broker, a tool, or a command, and turns errors into exit codes.

    0   stopped by a signal, or printed help or the version; a tool or a command: done
    1   a tool: the store has problems; a command: not everything was done, or it was not confirmed
    65  the store is damaged, or its directory contains something else; a tool: a line is invalid
    69  a port is in use or cannot be listened on; a tool or a command: the broker cannot be reached, or refuses
    70  the store failed and turned out to be damaged, or miniqueue has a bug
    71  the store cannot be opened for another reason, such as missing permissions or a full disk
    73  another process has the store open; a tool: its output already exists
    77  the certificate or its key cannot be used
    78  the configuration, a flag, or an argument is invalid
    129 a tool or a command was interrupted by SIGHUP
    130 a tool, a command, or a startup was interrupted by Ctrl-C
    143 a tool, a command, or a startup was interrupted by SIGTERM

The numbers are those of sysexits.h if one matches.
"""

import difflib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Final

from miniqueue import (
    __version__,
    lean_logging,  # noqa: F401 - before all that imports structlog
)
from miniqueue.commands import COMMANDS, Entry
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
from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.server.config.usage import usage
from miniqueue.server.process import runtime
from miniqueue.server.process.escaping import quote
from miniqueue.tools import TOOLS, Tool

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


#: The variable by which a shell asks for completions; `miniqueue.commands.shell.completing` explains it.
COMPLETION_VARIABLE = "_MINIQUEUE_COMPLETE"
PROBLEMS = 1
INTERRUPTED = 130
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


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
        if COMPLETION_VARIABLE in environ:
            return _run_short(lambda: _complete(environ))
        if (
            argv
            and argv[0] == "help"
            and ((len(argv) == 2 and argv[1] in TOOLS) or (argv[1:2] and argv[1] in COMMANDS))
        ):
            argv = [*argv[1:], "-h"]
        if argv and argv[0] in TOOLS:
            return _run_short(lambda: importlib.import_module(TOOLS[argv[0]].module).run(argv[1:], environ))
        if argv and argv[0] in COMMANDS:
            return _run_short(lambda: _program().run(argv[0], argv[1:], environ))
        if argv:
            _refuse_unknown(argv[0])
        config = load(argv, environ)
        if isinstance(config, Question):
            return _run_short(lambda: _answer(config))
        _serve(config, service_variables(environ))
    except MiniqueueError as exc:
        return _report(exc)
    return 0


def _answer(question: Question) -> int:
    sys.stdout.write(_help() if question is Question.HELP else f"miniqueue {__version__}\n")
    return 0


def _help() -> str:
    return usage(_summaries(COMMANDS), _summaries(TOOLS))


def _summaries(table: Mapping[str, Entry | Tool]) -> dict[str, str]:
    return {name: entry.summary for name, entry in table.items()}


def _program() -> ModuleType:
    from miniqueue.commands import program  # noqa: PLC0415 - imports Click

    return program


def _complete(environ: Mapping[str, str]) -> int:
    flags = [setting.flag for setting in SETTINGS]
    sys.stdout.write(_program().complete(_summaries(TOOLS), flags, environ))
    return 0


def _refuse_unknown(word: str) -> None:
    """Raise ConfigError for a first word that is almost a command; others are judged with the settings."""
    names = [*COMMANDS, *TOOLS]
    nearest = [] if word.startswith("-") else difflib.get_close_matches(word, names, n=1)
    if nearest:
        raise ConfigError([f"argument {quote(word)}: no such command; did you mean {nearest[0]}?; see -h"])


def _run_short(run: Callable[[], int]) -> int:
    """Run what is no broker, and return its exit code."""
    admit_hangup()
    if sys.stdout is None:  # a shell has closed it, by >&-
        raise StorageError("cannot write the output: standard output is closed")
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        _drop_output()
        return 0
    except OSError as exc:
        if exc.errno not in _NO_ROOM or exc.filename is not None:
            raise StorageError(str(exc)) from exc
        _drop_output()
        raise StorageError(f"cannot write the output: {exc.strerror}") from exc
    return code


def _drop_output() -> None:
    """Discard what is not written; otherwise the flush at the end of the process would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _serve(config: Config, ignored_variables: Sequence[str]) -> None:
    with runtime.without_garbage_collection():
        from miniqueue.server.run import run  # noqa: PLC0415 - not loaded for help and configuration errors

        run(config, ignored_variables)


def _report(error: MiniqueueError) -> int:
    problems = error.problems if isinstance(error, ConfigError) else [str(error)]
    for problem in problems:
        print(f"miniqueue: {problem}", file=sys.stderr)
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)

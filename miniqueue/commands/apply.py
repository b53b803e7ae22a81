"""`miniqueue apply`: gives a broker the topics, groups, schedules, and users that a file describes."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from miniqueue.commands.applying.carrying_out import carry_out
from miniqueue.commands.applying.document import parse
from miniqueue.commands.applying.export import render
from miniqueue.commands.applying.lines import lines_of, member_of, summary
from miniqueue.commands.applying.plan import Act, Change, plan
from miniqueue.commands.applying.reading import read_existing
from miniqueue.commands.applying.resources import Described, Existing, Kind
from miniqueue.commands.applying.users import carry_out_users, existing_users
from miniqueue.commands.shell import asking, flags
from miniqueue.commands.shell.columns import rendered
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.progress import progress
from miniqueue.commands.shell.texts import counted, shown_bytes
from miniqueue.commands.shell.values import FILE
from miniqueue.errors import ClientError, ConfigError, ServerError
from miniqueue.server.process.escaping import escape, quote

#: Exit code of --check if there is something to do.
PENDING: Final = 1
_MAX_FILE_BYTES: Final = 64 << 20
_COLORS: Final = {Act.CREATE: "green", Act.CHANGE: "yellow", Act.DELETE: "red"}


@flags.command(epilog="Example: miniqueue apply -f topics.toml --dry-run")
@flags.flag("-f", "--file", type=FILE, help="File that describes topics, groups, schedules, and users; - for input.")
@flags.flag("--dry-run", is_flag=True, help="Only show what would change.")
@flags.flag("--check", is_flag=True, help="As --dry-run, with exit code 1 if something would change.")
@flags.flag("--prune", is_flag=True, help="Delete what the file does not name, from each table that it has.")
@flags.flag("--yes", is_flag=True, help="Do not ask before deleting.")
@flags.flag("--users-file", type=FILE, help="Users file of the broker, to which the users of the file are applied.")
@flags.flag("--no-users", is_flag=True, help="Leave out the users of the file.")
@flags.flag("--export", is_flag=True, help="Print the file for what the broker has, and change nothing.")
@with_output
@connected
def command(client: BrokerClient, output: Output, **choices: Any) -> int:  # noqa: ANN401 - values of flags
    """Make the topics, groups, schedules, and users of a broker what a file describes.

    Shows each change, then carries it out. Applied again, the same file changes nothing. A setting that the file does
    not name is left alone; a schedule or a user has exactly what its table has.
    """
    if choices["export"]:
        if choices["file"]:
            raise ConfigError(["flags --export and --file: only one can be used"])
        everything = Described({}, has_topics=True, has_schedules=True)
        output.write(render(read_existing(client, everything, everything=True)))
        return 0
    described = _described(choices)
    users_file = Path(choices["users_file"]) if choices["users_file"] and described.has_users else None
    changes = plan(described, _existing(client, described, choices["prune"], users_file), prunes=choices["prune"])
    is_dry = choices["dry_run"] or choices["check"]
    _show(changes, output, is_dry)
    if changes and not is_dry:
        _confirm(changes, choices["yes"])
        _carry_out(client, changes, described, users_file)
        if output.form == "table":
            output.write(f"carried out {counted(len(changes), 'change')}\n")
    return PENDING if choices["check"] and changes else 0


def _described(choices: dict[str, Any]) -> Described:
    file = choices["file"]
    if file is None:
        raise ConfigError(["missing flag --file; see -h"])
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as opened:
            content = opened.read(_MAX_FILE_BYTES + 1)
            if len(content) > _MAX_FILE_BYTES:
                raise ConfigError([f"flag --file: {quote(file)} is larger than {shown_bytes(_MAX_FILE_BYTES)}"])
            text = content.decode()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "not UTF-8"
        raise ConfigError([f"flag --file: {quote(file)} cannot be read: {reason}"]) from exc
    try:
        described = parse(text)
    except ConfigError as exc:
        raise ConfigError([f"{escape(file)}: {problem}" for problem in exc.problems]) from exc
    if described.has_users and choices["no_users"]:
        kept = {resource: values for resource, values in described.resources.items() if resource.kind is not Kind.USER}
        return replace(described, resources=kept, has_users=False)
    if described.has_users and not choices["users_file"]:
        raise ConfigError([f"{escape(file)} has users; name the users file with --users-file, or use --no-users"])
    return described


def _existing(client: BrokerClient, described: Described, prunes: bool, users_file: Path | None) -> Existing:
    existing = read_existing(client, described, everything=prunes)
    users = existing_users(users_file) if users_file else {}
    return replace(existing, resources={**existing.resources, **users})


def _show(changes: Sequence[Change], output: Output, is_dry: bool) -> None:
    if output.form == "json":
        output.record({"changes": [member_of(change) for change in changes], "dry_run": is_dry})
    elif output.form == "jsonl":
        for change in changes:
            output.done("", member_of(change))
    else:
        for change in changes:
            head, *others = lines_of(change)
            output.write(_colored(head, change.act) if output.is_terminal else f"{head}\n")
            output.write("".join(f"{line}\n" for line in others))
        output.write(f"{summary(changes)}\n")


def _colored(line: str, act: Act) -> str:
    from rich.text import Text  # noqa: PLC0415 - only for a terminal

    return rendered(Text(line, style=_COLORS[act], overflow="ignore", no_wrap=True))


def _confirm(changes: Sequence[Change], is_confirmed: bool) -> None:
    deletions = [change for change in changes if change.act is Act.DELETE]
    if deletions:
        things = "one of them" if len(deletions) == 1 else f"{len(deletions)} of them"
        asking.confirm(f"carry out these changes, of which {things} delete{'s' * (len(deletions) == 1)}", is_confirmed)


def _carry_out(client: BrokerClient, changes: Sequence[Change], described: Described, users_file: Path | None) -> None:
    of_broker = [change for change in changes if change.resource.kind is not Kind.USER]
    with progress("applying", len(of_broker), "changes") as advance:
        for number, change in enumerate(of_broker):
            try:
                carry_out(client, change, described.resources)
            except ClientError as exc:
                where = f"{change.act} {escape(str(change.resource))}"
                raise ServerError(f"{where}: {exc}; {number} of {len(changes)} changes were carried out") from exc
            advance(1)
    of_users = [change for change in changes if change.resource.kind is Kind.USER]
    if users_file and of_users:
        for name in carry_out_users(users_file, of_users, described.resources):
            hint = f"miniqueue user passwd -users {escape(str(users_file))} {name}"
            print(f"miniqueue: user {name} has no secret yet; {hint}", file=sys.stderr)

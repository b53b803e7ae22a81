"""The settings as text for people: what `-h` prints, and the option table of the README.

Both are made from `settings.SETTINGS`, so they cannot leave one out or tell an old default.
"""

from collections.abc import Mapping

from miniqueue.server.setting import Setting
from miniqueue.server.settings import SETTINGS

_HEAD = """\
Usage: miniqueue [flags]                   runs the broker
       miniqueue command [flags] [words]   a tool for its store; -h after the command tells more

A durable message queue: HTTP/2 and RESP on one store.

Commands:
{commands}
Flags (one dash or two, -name value or -name=value):
"""
_FOOT = """\
  -version
        print the version and exit; also `miniqueue version`
  -h, -help
        print this text and exit; also `miniqueue help`, and `miniqueue help command`

Each setting can also be given as a variable (-resp-port: MINIQUEUE_RESP_PORT) and as a key of
the TOML file that -config names (resp-port = 6379). A flag beats a variable, which beats the file.
"""


def usage(commands: Mapping[str, str]) -> str:
    """Return what `miniqueue -h` prints, newline included; `commands` are summaries by name."""
    listed = "".join(f"  {name:<10}{summary}\n" for name, summary in commands.items())
    return _HEAD.format(commands=listed) + "".join(map(_usage_entry, SETTINGS)) + _FOOT


def option_table() -> str:
    """Return the settings as a Markdown table: flag, variable, default, meaning."""
    rows = ["| flag | variable | default | meaning |", "|---|---|---|---|", *map(_table_row, SETTINGS)]
    return "\n".join(rows) + "\n"


def _usage_entry(setting: Setting) -> str:
    default = f" (default {setting.default})" if setting.default else ""
    return f"  {setting.flag} {setting.placeholder}".rstrip() + f"\n        {setting.help}{default}\n"


def _table_row(setting: Setting) -> str:
    flag = f"{setting.flag} {setting.placeholder}".rstrip()
    default = f"`{setting.default}`" if setting.default else "–"
    return f"| `{flag}` | `{setting.variable}` | {default} | {setting.help} |"

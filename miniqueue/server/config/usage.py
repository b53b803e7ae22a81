"""The settings as text: the output of `-h`, and the settings table of the README.

Both are generated from `settings_table.SETTINGS`, so they cannot omit a setting or show an old default.
"""

from collections.abc import Mapping

from miniqueue.server.config.setting import Setting
from miniqueue.server.config.settings_table import SETTINGS

_HEAD = """\
Usage: miniqueue [flags]                       runs the broker
       miniqueue command [flags] [arguments]   runs a command; `miniqueue command -h` describes it

A durable message queue: HTTP/2 and RESP on one store.

Commands for messages, on a running broker:
{commands}
Commands for the operator of a store:
{tools}
Flags of the broker (one dash or two, -name value or -name=value):
"""
_FOOT = """\
  -version
        print the version and exit; also `miniqueue version`
  -h, -help
        print this text and exit; also `miniqueue help`, and `miniqueue help command`

Each setting can also be set by an environment variable (-resp-port: MINIQUEUE_RESP_PORT) or by a key of
the file that -config names (resp-port = 6379). Flags override variables, which override the file.
MINIQUEUE_PASSWORD can contain the password instead of a file; it is no flag, which others could see.
"""


def usage(commands: Mapping[str, str], tools: Mapping[str, str]) -> str:
    """Return the output of `miniqueue -h`, with its last newline; both maps contain summaries, by name."""
    head = _HEAD.format(commands=_listed(commands), tools=_listed(tools))
    return head + "".join(map(_usage_entry, SETTINGS)) + _FOOT


def option_table() -> str:
    """Return the settings as a Markdown table: flag, variable, default, meaning."""
    rows = ["| flag | variable | default | meaning |", "|---|---|---|---|", *map(_table_row, SETTINGS)]
    return "\n".join(rows) + "\n"


def _listed(summaries: Mapping[str, str]) -> str:
    return "".join(f"  {name:<12}{summary}\n" for name, summary in summaries.items())


def _usage_entry(setting: Setting) -> str:
    default = f" (default {setting.default})" if setting.default else ""
    return f"  {setting.flag} {setting.placeholder}".rstrip() + f"\n        {setting.help}{default}\n"


def _table_row(setting: Setting) -> str:
    flag = f"{setting.flag} {setting.placeholder}".rstrip()
    default = f"`{setting.default}`" if setting.default else "–"
    return f"| `{flag}` | `{setting.variable}` | {default} | {setting.help} |"

"""One setting: its names on the command line, in the environment and in files, and what makes a value of its text.

`settings` has the table of all there are.
"""

from collections.abc import Callable
from dataclasses import dataclass

VARIABLE_PREFIX = "MINIQUEUE_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing an operator can set."""

    name: str
    field: str
    """The attribute of `Config`; it carries the unit that the name leaves out."""
    default: str
    """The text that the setting has when nobody sets it; parsed like any other."""
    parse: Callable[[str], object]
    """From text to value; raises `ConfigError` with what is wanted."""
    placeholder: str
    """What stands for the value in `-h`; empty for a switch, which needs none."""
    help: str

    @property
    def flag(self) -> str:
        """The flag as it is written on the command line; a second dash in front does no harm."""
        return "-" + self.name

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return VARIABLE_PREFIX + self.name.upper().replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """Whether the flag alone means true, and a value needs `=`."""
        return not self.placeholder

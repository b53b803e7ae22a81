"""Users for real brokers: a file made by `miniqueue user`, and secrets to go with it.

The tool runs in this process: to start another one would take longer than all else that it does.
"""

import io
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from miniqueue import cli

PASSWORD = "correct: horse"


class UsersFile:
    """A users file in a directory, and the tokens beside it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.path = directory / "users.toml"

    def add(self, name: str, *flags: str) -> str:
        """Add a user with a token, which is returned."""
        file = self._directory / f"{name}.token"
        self.run("add", *flags, "-token-file", str(file), name)
        return file.read_text().strip()

    def add_with_password(self, name: str, *flags: str) -> None:
        self.run("add", *flags, name, given=PASSWORD + "\n")

    def run(self, *words: str, given: str = "") -> None:
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
        with mock.patch("sys.stdin", stdin), redirect_stdout(io.StringIO()):
            code = cli.main(["user", *words, "-users", str(self.path)], {})
        assert code == 0

    def token_file(self, name: str) -> str:
        return str(self._directory / f"{name}.token")

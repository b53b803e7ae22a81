"""Users for real brokers: a file made by the real command, and secrets to go with it."""

import subprocess
from pathlib import Path

from tests.acceptance.process import COMMAND, environment

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
        subprocess.run(
            [*COMMAND, "user", *words, "-users", str(self.path)],
            input=given,
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
        )

    def token_file(self, name: str) -> str:
        return str(self._directory / f"{name}.token")

"""The users of a broker, read at startup and at each reload.

    -users, and the file exists     the users in the file; a password has no effect
    otherwise, with a password      the user `default`, admin of `*`; nothing is written
    otherwise                       none: every client may do everything

The password is in the variable MINIQUEUE_PASSWORD, or is the first line of the file of -password-file, such as a
secret of Docker or Kubernetes. So a container has a user at its first start, and the password of the next start is the
one that is configured then, since nothing stores it.
"""

from collections.abc import Callable
from pathlib import Path

from miniqueue.access.hashing import check_password, hash_password
from miniqueue.access.users import DEFAULT_NAME, EVERYTHING, User, Users
from miniqueue.errors import ConfigError
from miniqueue.server.config.config import Config
from miniqueue.server.config.setting import PASSWORD_VARIABLE
from miniqueue.server.process.escaping import escape
from miniqueue.server.security.file_access import read_protected
from miniqueue.server.security.file_watch import Identity, identity
from miniqueue.server.security.users_file import read_users


class UserSource:
    """Reads the users that the settings define.

    Args:
      config: the settings; they define users.
      report: called with a warning about a file to which others can or could write.
    """

    def __init__(self, config: Config, report: Callable[[str], None] = lambda _: None) -> None:
        self._config = config
        self._report = report
        self._default: tuple[str, User] | None = None
        self._seen: list[Identity] = []

    def read(self) -> Users:
        """Return the users of now; raises ConfigError with every problem."""
        self._seen = self._identities()  # before reading, so that the next check finds changes that happen meanwhile
        file = self._config.users
        if file is None or (self._config.has_password and _is_missing(file)):
            return Users([self._user_with(password_of(self._config, self._report))])
        return read_users(file, self._report)

    def has_changed(self) -> bool:
        """Whether a file has changed since `read` was called, even if that raised an error."""
        return self._identities() != self._seen

    def _identities(self) -> list[Identity]:
        files = (self._config.users, self._config.password_file)
        return [identity(file) for file in files if file is not None]

    def _user_with(self, password: str) -> User:
        # A hash has a new salt each time; the user must stay the same while the password does.
        if self._default is None or self._default[0] != password:
            secret = hash_password(_encoded(password))
            self._default = password, User(DEFAULT_NAME, secret, roles={"admin": (EVERYTHING,)})
        return self._default[1]


def password_of(config: Config, report: Callable[[str], None] = lambda _: None) -> str:
    """Return the password that the settings contain; raises ConfigError, which does not quote it."""
    if config.password_file is None:
        return _checked(f"variable {PASSWORD_VARIABLE}", config.password)
    origin = f"flag -password-file: {escape(str(config.password_file))}"
    return _checked(origin, _first_line(origin, config.password_file, report))


def _is_missing(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except OSError:
        pass  # it may exist: `read_users` reports what is wrong
    return False


def _first_line(origin: str, path: Path, report: Callable[[str], None]) -> str:
    try:
        return read_protected(path, report).partition("\n")[0].removesuffix("\r")
    except FileNotFoundError as exc:
        raise ConfigError([f"{origin}: it is missing"]) from exc
    except ConfigError as exc:
        raise ConfigError([f"{origin}: {problem}" for problem in exc.problems]) from exc


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")  # a variable need not be UTF-8


def _checked(origin: str, password: str) -> str:
    try:
        check_password(_encoded(password))
    except ConfigError as exc:
        raise ConfigError([f"{origin}: {problem}" for problem in exc.problems]) from exc
    return password

"""What is wrong with a request for a topic or its settings; more of `miniqueue.errors`."""

from miniqueue.errors import RequestError, UnavailableError


class UnknownTopicError(RequestError):
    """There is no such topic."""

    code = "NOTOPIC"


class PausedError(UnavailableError):
    """The topic is paused: it takes no messages now."""

    code = "PAUSED"


class TopicExistsError(RequestError):
    """There is such a topic already."""

    code = "EXISTS"


class InvalidSettingError(RequestError):
    """A setting of a topic is unknown, or its value is none that it may have.

    Args:
      name: of the setting.
      allowed: what it may be, or `no setting; …`.
    """

    code = "BADSETTING"

    def __init__(self, name: str, allowed: str) -> None:
        super().__init__(f"{name} {'is' if allowed.startswith('no ') else 'must be'} {allowed}")
        self.name = name

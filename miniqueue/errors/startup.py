"""Errors of the operator: the broker, or a tool, cannot start."""

from miniqueue.errors.base import MiniqueueError


class ConfigError(MiniqueueError):
    """The configuration cannot be used."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class CertificateError(ConfigError):
    """The certificate or its key cannot be used."""


class ListenError(MiniqueueError):
    """The address cannot be listened on."""

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {why}")
        self.host = host
        self.port = port

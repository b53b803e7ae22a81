"""Errors of the operator: the broker, or a tool, cannot start."""

from miniqueue_client.errors import ConfigError, MiniqueueError


class CertificateError(ConfigError):
    """The certificate or its key cannot be used."""


class ListenError(MiniqueueError):
    """The address cannot be listened on."""

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {why}")
        self.host = host
        self.port = port

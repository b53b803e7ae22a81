"""Variables that Kubernetes sets for a Service named miniqueue are ignored; others with that prefix are settings."""

import pytest

from miniqueue.errors import ConfigError
from miniqueue.server.config.config import Config, load
from miniqueue.server.config.service_variables import service_variables

#: As in a pod of the namespace: Services with two named ports, with one port, with IPv6, with UDP and SCTP.
SERVICE_VARIABLES = {
    "MINIQUEUE_SERVICE_HOST": "10.96.0.12",
    "MINIQUEUE_SERVICE_PORT": "8080",
    "MINIQUEUE_SERVICE_PORT_HTTPS": "8080",
    "MINIQUEUE_SERVICE_PORT_RESP_TLS": "6379",
    "MINIQUEUE_PORT": "tcp://10.96.0.12:8080",
    "MINIQUEUE_PORT_8080_TCP": "tcp://10.96.0.12:8080",
    "MINIQUEUE_PORT_8080_TCP_PROTO": "tcp",
    "MINIQUEUE_PORT_8080_TCP_PORT": "8080",
    "MINIQUEUE_PORT_8080_TCP_ADDR": "10.96.0.12",
    "MINIQUEUE_PORT_53_UDP": "udp://10.96.0.12:53",
    "MINIQUEUE_PORT_53_UDP_PROTO": "udp",
    "MINIQUEUE_PORT_53_UDP_PORT": "53",
    "MINIQUEUE_PORT_53_UDP_ADDR": "10.96.0.12",
    "MINIQUEUE_PORT_9_SCTP": "sctp://10.96.0.12:9",
    "MINIQUEUE_PORT_9_SCTP_PROTO": "sctp",
    "MINIQUEUE_RESP_SERVICE_HOST": "10.96.0.13",
    "MINIQUEUE_RESP_PORT": "tcp://10.96.0.13:6379",
    "MINIQUEUE_RESP_PORT_6379_TCP_ADDR": "10.96.0.13",
    "MINIQUEUE_MONITOR_PORT": "tcp://[fd00::1]:8081",
    "MINIQUEUE_MONITOR_SERVICE_HOST": "fd00::1",
}


def loaded(argv, environ):
    config = load(argv, environ)
    assert isinstance(config, Config)
    return config


def test_variables_of_a_service_are_ignored_and_can_be_named():
    assert loaded([], SERVICE_VARIABLES) == loaded([], {})
    assert loaded(["-port=9000"], SERVICE_VARIABLES).port == 9000
    assert service_variables({**SERVICE_VARIABLES, "PATH": "/bin", "REDIS_PORT": "tcp://1.2.3.4:1"}) == sorted(
        SERVICE_VARIABLES
    )


def test_settings_are_read_alongside_variables_of_services():
    environ = SERVICE_VARIABLES | {"MINIQUEUE_PORT": "9000", "MINIQUEUE_LEVEL": "info"}
    config = loaded([], environ)
    assert (config.port, config.level) == (9000, "info")
    assert service_variables({"MINIQUEUE_PORT": "9000"}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MINIQUEUE_PORT", "tcp://10.96.0.12"),
        ("MINIQUEUE_PORT", "http://10.96.0.12:8080"),
        ("MINIQUEUE_PORT", "tcp://broker:8080"),
        ("MINIQUEUE_PORT", "tcp://10.96.0.12:80800"),
        ("MINIQUEUE_PORT", "tcp://10.96.0.12:8080\n"),
        ("MINIQUEUE_PORT_8080_TCP", "8080"),
        ("MINIQUEUE_PORT_8080_QUIC", "quic://10.96.0.12:8080"),
        ("MINIQUEUE_PORT_8080_TCP_NAME", "tcp"),
        ("MINIQUEUE_PORT_HTTP_TCP_PORT", "8080"),
        ("MINIQUEUE_PORT_8080_TCP_PROTO", "TCP"),
        ("MINIQUEUE_SERVICE_HOST", "broker"),
        ("MINIQUEUE_SERVICE_PORT", "https"),
        ("MINIQUEUE_SERVICE_NAME", "miniqueue"),
        ("MINIQUEUE_HOST", "tcp://10.96.0.12:8080"),
    ],
)
def test_anything_else_is_refused_or_a_setting(name, value):
    assert service_variables({name: value}) == []
    if name == "MINIQUEUE_HOST":
        assert loaded([], {name: value}).host == value
        return
    with pytest.raises(ConfigError, match=f"variable {name}"):
        load([], {name: value})

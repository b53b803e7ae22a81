"""Variables that Kubernetes sets for each Service, which look like settings of miniqueue but are not.

Kubernetes sets them in every container of the namespace. For a Service `miniqueue` or `miniqueue-resp` with port 8080,
they are, with `MINIQUEUE` or `MINIQUEUE_RESP` as name:

    name_SERVICE_HOST             10.96.0.12                an address
    name_SERVICE_PORT             8080                      also name_SERVICE_PORT_HTTPS, for a port with a name
    name_PORT                     tcp://10.96.0.12:8080     tcp, udp or sctp
    name_PORT_8080_TCP            tcp://10.96.0.12:8080     also UDP, SCTP
    name_PORT_8080_TCP_PROTO      tcp
    name_PORT_8080_TCP_PORT       8080
    name_PORT_8080_TCP_ADDR       10.96.0.12

`MINIQUEUE_PORT` and `MINIQUEUE_RESP_PORT` are also settings; their value tells them apart, because a port is not a URL.

Source: Kubernetes `pkg/kubelet/envvars/envvars.go`.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address

from miniqueue.server.config.setting import VARIABLE_PREFIX

_URL = re.compile(r"(?:tcp|udp|sctp)://(?:\[(?P<ipv6>[^\]]+)\]|(?P<ipv4>[^:]+)):(?P<port>[0-9]+)")
_PORT = re.compile(r"[0-9]{1,5}")
_MAX_PORT = 65535


def is_service_variable(name: str, value: str) -> bool:
    """Whether both the name and the value of a variable have a form that Kubernetes uses."""
    return any(form.fullmatch(name) is not None and has_value(value) for form, has_value in _FORMS)


def service_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that are ignored because Kubernetes set them for a Service."""
    return sorted(name for name, value in environ.items() if is_service_variable(name, value))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and int(text) <= _MAX_PORT


def _is_url(text: str) -> bool:
    url = _URL.fullmatch(text)
    return url is not None and _is_address(url["ipv6"] or url["ipv4"]) and _is_port(url["port"])


def _is_protocol(text: str) -> bool:
    return text in ("tcp", "udp", "sctp")


def _form(end: str) -> re.Pattern[str]:
    rest_of_name = "(?:[A-Z0-9_]+_)?"  # the Service may be named miniqueue-resp
    return re.compile(re.escape(VARIABLE_PREFIX) + rest_of_name + end)


_PORT_NAME = "PORT_[0-9]+_(?:TCP|UDP|SCTP)"
_FORMS = (
    (_form(f"(?:SERVICE_HOST|{_PORT_NAME}_ADDR)"), _is_address),
    (_form(f"(?:SERVICE_PORT(?:_[A-Z0-9_]+)?|{_PORT_NAME}_PORT)"), _is_port),
    (_form(f"(?:PORT|{_PORT_NAME})"), _is_url),
    (_form(f"{_PORT_NAME}_PROTO"), _is_protocol),
)

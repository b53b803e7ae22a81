"""A start that cannot listen says which flag to change."""

import socket

import pytest

from tests.acceptance.process import run_to_end

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

PORT_FLAGS = ("-port", "-resp-port", "-monitor-port")


@pytest.mark.parametrize("flag", PORT_FLAGS)
def test_a_port_in_use_is_told_with_its_flag(flag, trust, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = dict.fromkeys(PORT_FLAGS, "0") | {flag: str(taken.getsockname()[1])}
        words = [word for pair in ports.items() for word in pair]
        done = run_to_end(*words, *trust.flags, "-storage", "memory", cwd=tmp_path)
    assert done.returncode == 69
    assert f"Address already in use ({flag})" in done.stderr


@pytest.mark.parametrize("flag", ["-host", "-monitor-host"])
def test_an_address_of_another_machine_is_told_with_its_flag(flag, trust, tmp_path):
    ports = [word for port_flag in PORT_FLAGS for word in (port_flag, "0")]
    done = run_to_end(*ports, *trust.flags, "-storage", "memory", "-insecure", flag, "192.0.2.1", cwd=tmp_path)
    assert done.returncode == 69
    assert f"({flag})" in done.stderr

"""A start whose port is in use says which flag to change."""

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

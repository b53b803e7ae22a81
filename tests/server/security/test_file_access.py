"""The files that the operator names are opened without waiting, and only if they are regular files."""

import os
import stat

import pytest

from miniqueue.errors import CertificateError, ConfigError
from miniqueue.server.security.certificates import server_tls_context
from miniqueue.server.security.file_access import read_regular
from miniqueue.server.security.users_file import read_users


@pytest.fixture(params=["FIFO", "socket", "device"])
def special(request, tmp_path):
    path = tmp_path / "special"
    if request.param == "FIFO":
        os.mkfifo(path)
    elif request.param == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    else:
        path.symlink_to("/dev/null")
    return path


def test_certificates_and_keys_that_are_no_regular_files_are_refused(special, certificates):
    for files in ((special, certificates.key), (certificates.cert, special)):
        with pytest.raises(CertificateError, match="special: it is not a regular file"):
            server_tls_context(*files)


def test_a_client_authority_that_is_no_regular_file_is_refused(special, certificates):
    with pytest.raises(
        CertificateError, match=r"^flag -client-ca: client authority .*special: it is not a regular file"
    ):
        server_tls_context(certificates.cert, certificates.key, client_ca=special)


def test_a_users_file_that_is_no_regular_file_is_refused(special):
    with pytest.raises(ConfigError, match=r"^flag -users: users file .*special: it is not a regular file"):
        read_users(special)


def test_a_link_to_a_regular_file_is_followed_as_in_a_kubernetes_secret(tmp_path):
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "key").write_bytes(b"key")
    (tmp_path / "key").symlink_to("..data/key")
    assert read_regular(tmp_path / "key") == b"key"

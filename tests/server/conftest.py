"""A certificate for the servers of these tests."""

import pytest

from miniqueue.server.security import Certificates
from tests.serving import make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))

"""Certificates of the first start: made, private, trusted through the authority, renewed, refused when odd."""

import os
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from miniqueue.errors import CertificateError, ConfigError
from miniqueue.server.security.certificate_reading import ends_at
from miniqueue.server.security.certificates import ensure_certificates, server_tls_context
from miniqueue.server.security.local_authority import LocalAuthority

# The real time: OpenSSL compares with its own clock when it shakes hands.
NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = ["ca-key.pem", "ca.pem", "localhost-key.pem", "localhost.pem"]


def ensure(directory, now=NOW, may_create=True):
    return ensure_certificates(
        directory / "localhost.pem", directory / "localhost-key.pem", may_create=may_create, now=now
    )


@pytest.fixture
def certs(tmp_path):
    """A directory after a first start."""
    ensure(tmp_path / "certs")
    return tmp_path / "certs"


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def client_context(authority):
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["h2"])
    return context


def shake_hands(server_context, client_context, hostname):
    """Connect both contexts in memory; return the two ends, or raise what the client raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=hostname)
    unfinished = [client, server]
    for _ in range(10):
        for end in list(unfinished):
            try:
                end.do_handshake()
                unfinished.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not unfinished
    return server, client


def problem_of(call, *arguments, **options):
    with pytest.raises(CertificateError) as caught:
        call(*arguments, **options)
    [problem] = caught.value.problems
    assert problem.isprintable()
    return problem


def test_the_first_start_makes_an_authority_and_a_certificate(tmp_path):
    directory = tmp_path / "deep" / "certs"
    made = ensure(directory)
    assert sorted(contents(directory)) == NAMES
    assert sorted(path.name for path in made.created) == NAMES
    assert made.hint == f"clients trust it with {directory}/ca.pem: curl --cacert {directory}/ca.pem …"
    assert made.warning == ""


def test_write_access_of_a_group_of_this_process_to_own_keys_is_withdrawn(certs):
    keys = (certs / "localhost-key.pem", certs / "ca-key.pem")
    for key in keys:
        key.chmod(0o660)
    assert ensure(certs, may_create=False).corrected == ()  # named by the operator
    assert ensure(certs).corrected == keys
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert ensure(certs).corrected == ()


def test_the_second_start_changes_nothing_and_gives_the_hint_again(certs):
    before = contents(certs)
    again = ensure(certs)
    assert again.created == ()
    assert "--cacert" in again.hint
    assert contents(certs) == before


def test_keys_are_for_their_owner_only_and_certificates_for_all(certs):
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in certs.iterdir()}
    assert modes == {
        "ca-key.pem": 0o600,
        "ca.pem": 0o644,
        "localhost-key.pem": 0o600,
        "localhost.pem": 0o644,
    }


@pytest.mark.parametrize("hostname", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_accepts_the_server_and_gets_http2(certs, hostname):
    server_context = server_tls_context(certs / "localhost.pem", certs / "localhost-key.pem")
    server, client = shake_hands(server_context, client_context(certs / "ca.pem"), hostname)
    assert server.selected_alpn_protocol() == "h2"
    assert client.version() == "TLSv1.3"


def test_a_strict_client_accepts_the_chain(certs):
    strict = client_context(certs / "ca.pem")
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    shake_hands(server_tls_context(certs / "localhost.pem", certs / "localhost-key.pem"), strict, "localhost")


def test_a_client_refuses_the_server_under_another_name(certs):
    server_context = server_tls_context(certs / "localhost.pem", certs / "localhost-key.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server_context, client_context(certs / "ca.pem"), "example.org")


def test_a_client_that_trusts_another_authority_refuses_the_server(certs, tmp_path):
    ensure(tmp_path / "other")
    server_context = server_tls_context(certs / "localhost.pem", certs / "localhost-key.pem")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context, client_context(tmp_path / "other" / "ca.pem"), "localhost")


def test_tls_1_2_is_the_oldest_and_has_forward_secrecy(certs):
    context = server_tls_context(certs / "localhost.pem", certs / "localhost-key.pem")
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    modern = client_context(certs / "ca.pem")
    modern.maximum_version = ssl.TLSVersion.TLSv1_2
    _, client = shake_hands(context, modern, "localhost")
    assert client.version() == "TLSv1.2"
    assert client.cipher()[0].startswith("ECDHE-ECDSA-")


def test_the_certificate_lives_397_days_and_is_renewed_in_its_last_week(certs):
    cert = certs / "localhost.pem"
    assert ends_at(cert.read_bytes()) == NOW + timedelta(days=397)
    assert ensure(certs, NOW + timedelta(days=389)).created == ()
    before = contents(certs)
    renewed = ensure(certs, NOW + timedelta(days=391))
    assert renewed.created == (cert,)
    assert renewed.warning == ""
    assert ends_at(cert.read_bytes()) == NOW + timedelta(days=391 + 397)
    assert {name for name, content in contents(certs).items() if content != before[name]} == {"localhost.pem"}


def test_an_expired_certificate_is_renewed_and_serves_clients_of_the_same_authority(tmp_path):
    ensure(tmp_path, NOW - timedelta(days=500))
    ensure(tmp_path, NOW)
    server_context = server_tls_context(tmp_path / "localhost.pem", tmp_path / "localhost-key.pem")
    shake_hands(server_context, client_context(tmp_path / "ca.pem"), "localhost")


def test_nothing_outlives_the_authority_and_its_end_is_announced(certs):
    late = NOW + timedelta(days=3600)
    ensure(certs, late)
    authority_end = ends_at((certs / "ca.pem").read_bytes())
    assert ends_at((certs / "localhost.pem").read_bytes()) == authority_end == NOW + timedelta(days=3652)
    before = contents(certs)
    result = ensure(certs, authority_end)
    assert "only; remove the files in its directory to have all created again" in result.warning
    assert contents(certs) == before


def test_without_the_key_of_the_authority_an_ending_certificate_is_kept_with_a_warning(certs):
    (certs / "ca-key.pem").unlink()
    before = contents(certs)
    result = ensure(certs, NOW + timedelta(days=395))
    assert result.created == ()
    assert result.warning.startswith(f"certificate {certs}/localhost.pem is valid until ")
    assert contents(certs) == before


def test_a_certificate_of_another_authority_is_never_overwritten(certs, tmp_path):
    ensure(tmp_path / "other")
    for name in ("ca.pem", "ca-key.pem"):
        (certs / name).write_bytes((tmp_path / "other" / name).read_bytes())
    before = contents(certs)
    assert ensure(certs, NOW + timedelta(days=395)).warning
    assert contents(certs) == before


def test_what_cannot_be_read_as_a_certificate_is_not_renewed():
    pem = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert LocalAuthority.make(NOW).renew(pem, NOW) is None


def test_a_damaged_authority_leaves_a_warning_when_renewing(certs):
    (certs / "ca-key.pem").write_bytes(b"junk")
    assert ensure(certs, NOW + timedelta(days=395)).warning


def test_files_that_the_operator_named_are_used_but_never_written(certs):
    before = contents(certs)
    assert ensure(certs, may_create=False).hint == ""
    result = ensure(certs, NOW + timedelta(days=395), may_create=False)
    assert result.created == ()
    assert result.warning.endswith("only; replace it")
    assert contents(certs) == before


def test_missing_files_that_the_operator_named_are_refused(tmp_path):
    problem = problem_of(ensure, tmp_path, may_create=False)
    assert problem == f"flag -cert: certificate {tmp_path}/localhost.pem: No such file or directory"
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("missing", "left"), [("localhost.pem", "localhost-key.pem"), ("localhost-key.pem", "localhost.pem")]
)
def test_one_file_of_two_is_refused(certs, missing, left):
    (certs / missing).unlink()
    before = contents(certs)
    problem = problem_of(ensure, certs)
    assert problem == (
        f"flags -cert, -key: {certs}/{left} exists, but {certs}/{missing} is missing; "
        f"restore it, or remove {certs}/{left} to have both created again"
    )
    assert contents(certs) == before


def test_an_authority_that_is_there_signs_the_new_certificate(certs):
    authority = (certs / "ca.pem").read_bytes()
    (certs / "localhost.pem").unlink()
    (certs / "localhost-key.pem").unlink()
    assert {path.name for path in ensure(certs).created} == {"localhost.pem", "localhost-key.pem"}
    assert (certs / "ca.pem").read_bytes() == authority
    server_context = server_tls_context(certs / "localhost.pem", certs / "localhost-key.pem")
    shake_hands(server_context, client_context(certs / "ca.pem"), "localhost")


AUTHORITY_DAMAGE = [
    (lambda certs: (certs / "ca-key.pem").unlink(), "flag -cert: {}/ca.pem exists, but"),
    (
        lambda certs: (certs / "ca.pem").write_bytes(b"junk"),
        "the authority's certificate or key cannot be read",
    ),
    (
        lambda certs: (certs / "ca-key.pem").write_bytes((certs.parent / "other/ca-key.pem").read_bytes()),
        "the authority's key does not match its certificate",
    ),
]


@pytest.mark.parametrize(("damage", "text"), AUTHORITY_DAMAGE)
def test_a_new_certificate_needs_a_whole_authority(certs, tmp_path, damage, text):
    ensure(tmp_path / "other")
    damage(certs)
    (certs / "localhost.pem").unlink()
    (certs / "localhost-key.pem").unlink()
    before = contents(certs)
    assert text.format(certs) in problem_of(ensure, certs)
    assert contents(certs) == before


def test_an_authority_that_has_ended_signs_nothing_new(certs):
    (certs / "localhost.pem").unlink()
    (certs / "localhost-key.pem").unlink()
    assert f"flag -cert: {certs}/ca.pem: it has expired; remove it and" in problem_of(
        ensure, certs, NOW + timedelta(days=4000)
    )


def damaged(pem):
    """Return `pem` with its base64 text cut short, its frame whole."""
    lines = pem.splitlines()
    return b"\n".join([lines[0], lines[1][:40], lines[-1], b""])


BAD_PAIRS = [
    (
        "localhost.pem",
        lambda pem: b"",
        "flag -cert: certificate {}/localhost.pem: no certificate in PEM form in this file",
    ),
    ("localhost-key.pem", lambda pem: b"\0", "flag -key: key {}/localhost-key.pem: no key in PEM form in this file"),
    ("localhost.pem", damaged, "flag -cert: certificate {}/localhost.pem: it is damaged ("),
    ("localhost-key.pem", damaged, "flag -key: key {}/localhost-key.pem: it is damaged ("),
]


@pytest.mark.parametrize(("name", "change", "text"), BAD_PAIRS)
def test_a_bad_file_is_named(certs, name, change, text):
    (certs / name).write_bytes(change((certs / name).read_bytes()))
    assert problem_of(ensure, certs).startswith(text.format(certs))


def test_a_key_of_another_certificate_is_refused(certs, tmp_path):
    ensure(tmp_path / "other")
    cert, key = certs / "localhost.pem", tmp_path / "other" / "localhost-key.pem"
    assert (
        problem_of(server_tls_context, cert, key) == f"flag -key: key {key}: it does not match the certificate {cert}"
    )


def test_swapped_files_are_refused(certs):
    problem = problem_of(server_tls_context, certs / "localhost-key.pem", certs / "localhost.pem")
    assert problem == f"flag -cert: certificate {certs}/localhost-key.pem: no certificate in PEM form in this file"


def test_an_encrypted_key_is_refused_instead_of_asking_for_its_passphrase(certs):
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only this test needs it

    key = serialization.load_pem_private_key((certs / "localhost-key.pem").read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (certs / "localhost-key.pem").write_bytes(encrypted)
    assert problem_of(ensure, certs).startswith(f"flag -key: key {certs}/localhost-key.pem: it is encrypted")


def test_a_directory_instead_of_a_file_is_refused(certs):
    problem = problem_of(server_tls_context, certs, certs / "localhost-key.pem")
    assert problem == f"flag -cert: certificate {certs}: Is a directory"


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    problem = problem_of(ensure, tmp_path / "file" / "certs")
    assert problem == f"flag -cert: certificate {tmp_path}/file/certs/localhost.pem: Not a directory"


def test_a_hostile_path_is_shown_harmless(tmp_path):
    problem = problem_of(server_tls_context, Path("a\x1b[2J\n"), tmp_path)
    assert problem == "flag -cert: certificate a\\x1b[2J\\n: No such file or directory"


def test_a_certificate_problem_is_a_configuration_problem():
    assert issubclass(CertificateError, ConfigError)


def test_processes_that_start_at_once_agree_on_one_authority(tmp_path):
    program = (
        "import sys\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
        "from miniqueue.server.security.certificates import ensure_certificates\n"
        "directory = Path(sys.argv[1])\n"
        "made = ensure_certificates(directory / 'localhost.pem', directory / 'localhost-key.pem',"
        " may_create=True, now=datetime.now(UTC))\nprint(len(made.created))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "certs")]
    starts = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = sorted(start.communicate(timeout=60)[0].strip() for start in starts)
    assert counts == ["0", "0", "4"]
    assert sorted(contents(tmp_path / "certs")) == NAMES


def test_using_certificates_does_not_load_the_library_that_makes_them(certs):
    program = (
        "import sys\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
        "from miniqueue.server.security.certificates import ensure_certificates\n"
        "directory = Path(sys.argv[1])\n"
        "ensure_certificates(directory / 'localhost.pem', directory / 'localhost-key.pem',"
        " may_create=True, now=datetime.now(UTC))\nprint('cryptography' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(certs)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert done.stdout == "False\n"

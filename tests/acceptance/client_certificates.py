"""An authority for clients, made by the test, and certificates of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class ClientAuthority:
    """Signs certificates; its own is at `path`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clients")])
        certificate = self._sign(self._name, self._key, is_authority=True)
        self.path = directory / "clients.pem"
        self.path.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, organisation: str) -> tuple[str, str]:
        """Return the paths of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        cert_path, key_path = self._directory / f"{name}.pem", self._directory / f"{name}-key.pem"
        cert_path.write_bytes(self._sign(subject, key).public_bytes(Encoding.PEM))
        key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return str(cert_path), str(key_path)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        return builder.sign(self._key, SHA256())

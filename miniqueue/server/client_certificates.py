"""Who a TLS client's certificate says it is: the subject, as RFC 4514 writes it.

    DER: O=Example, CN=ada  ──▶  CN=ada,O=Example      what openssl x509 -subject -nameopt RFC2253 prints

Only certificates that TLS has verified against `-client-ca` come here. Knows no users.
"""

from typing import Any

#: Where the subject of a connection stands in the `state` of its ASGI scopes.
STATE_KEY = "client_certificate"


def subject_of(ssl_object: Any) -> str:  # noqa: ANN401 - of the ssl module, or uvloop's
    """Return the subject of the peer's certificate; empty without TLS or without a certificate."""
    encoded = ssl_object.getpeercert(True) if ssl_object is not None else None
    if not encoded:
        return ""
    from cryptography import x509  # noqa: PLC0415 - only with -client-ca: takes 50 ms

    return x509.load_der_x509_certificate(encoded).subject.rfc4514_string()

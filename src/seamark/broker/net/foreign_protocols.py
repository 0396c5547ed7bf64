"""What a client speaks that came to the wrong port, by its first bytes, so that the log can say so."""

from __future__ import annotations

# Every TLS connection begins with a handshake record: type 22, version 3.x.
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"DELETE ", b"CONNECT ", b"PRI * HTTP")


def foreign_protocol(first: bytes) -> str | None:
    """What the client did, for "it …"; None if its bytes are of no protocol that is known here.

    >>> foreign_protocol(b"GET / HTTP/1.1")
    'sent an HTTP request to a port that speaks Kafka'
    """
    if first.startswith(_TLS_HANDSHAKE):
        return "began a TLS handshake on a port without TLS (security.protocol of the client is wrong)"
    if first.startswith(_HTTP_METHODS):
        return "sent an HTTP request to a port that speaks Kafka"
    return None

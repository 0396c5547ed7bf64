"""The subject of a client's certificate as Kafka names its principal: RFC 2253, the most specific part first.

The certificate was verified before by TLS; this reads only as far as the subject. Python's own ``getpeercert`` is of
no use here: it drops how a value was encoded, which the hexadecimal form of unusual attributes shows.
"""

from __future__ import annotations

from collections.abc import Iterator

from seamark.errors import SeamarkError

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE, _SET, _OBJECT_ID, _EXPLICIT_VERSION = 0x30, 0x31, 0x06, 0xA0
# DER tag to the encoding of its text: UTF8, Printable, T61, IA5, General, Universal and BMP strings.
_TEXTS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED = frozenset(',=+<>#;"\\')


class BadCertificate(SeamarkError):
    """A certificate whose subject cannot be read."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER."""
    try:
        _, body, _ = _element(certificate, 0)
        _, signed_part, _ = _element(body, 0)
        fields = list(_elements(signed_part))
        # Version (optional), serial number, signature algorithm, issuer, validity, subject.
        subject = fields[5 if fields[0][0] == _EXPLICIT_VERSION else 4]
        if subject[0] != _SEQUENCE:
            raise BadCertificate("the client's certificate has no subject")
        names = [_relative_name(value) for tag, value in _elements(subject[1]) if tag == _SET]
    except (IndexError, ValueError) as error:
        raise BadCertificate("the subject of the client's certificate cannot be read") from error
    return ",".join(reversed(names))


def _relative_name(encoded: bytes) -> str:
    return "+".join(_attribute(value) for tag, value in _elements(encoded) if tag == _SEQUENCE)


def _attribute(encoded: bytes) -> str:
    tag, identifier, position = _element(encoded, 0)
    if tag != _OBJECT_ID:
        raise ValueError("an attribute must begin with its object id")
    name = _object_id(identifier)
    value_tag, value, end = _element(encoded, position)
    keyword = _KEYWORDS.get(name)
    if keyword is None or value_tag not in _TEXTS:
        return f"{keyword or name}=#{encoded[position:end].hex()}"
    return f"{keyword}={_escaped(value.decode(_TEXTS[value_tag]))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{character}" if character in _ESCAPED else character for character in text)
    # Spaces that a reader would trim away.
    leading = len(escaped) - len(escaped.lstrip(" "))
    trailing = len(escaped) - len(escaped.rstrip(" ")) if leading < len(escaped) else 0
    middle = escaped[leading : len(escaped) - trailing]
    return "\\ " * leading + middle + "\\ " * trailing


def _object_id(encoded: bytes) -> str:
    numbers = []
    value = 0
    for byte in encoded:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _elements(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(encoded):
        tag, value, position = _element(encoded, position)
        yield tag, value


def _element(encoded: bytes, position: int) -> tuple[int, bytes, int]:
    """Return tag and value at a position, and where they end."""
    tag, length = encoded[position], encoded[position + 1]
    position += 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(encoded[position : position + count])
        position += count
    end = position + length
    if end > len(encoded):
        raise ValueError("the element is longer than the one that contains it")
    return tag, encoded[position:end], end

"""CRC-32C, the checksum of Kafka's batches and of our own files.

The only module that names the package which computes it, so that another one can take its place here.
"""

from __future__ import annotations

from fastcrc.crc32 import iscsi

# ``crc32c(content, before)``: bytes of any kind, which are not copied, and the checksum of the bytes before them. It is
# the package's own function and not one around it: a batch of a hundred bytes takes a tenth of a microsecond.
crc32c = iscsi

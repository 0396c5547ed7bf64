"""The segmented log in Kafka's own batch format, on a filesystem port: append, read, recover, compact, retain.

No thread, no clock, no socket; the disk only through ``Filesystem``. One owner per log.
"""

from seamark.storage.errors import (
    CorruptBatch,
    DiskFull,
    LogError,
    MissingFile,
    OffsetOutOfRange,
    StorageFailed,
    TooManyOpenFiles,
    TornTail,
    UnknownFormat,
    WritesStopped,
)
from seamark.storage.files.filesystem import File, Filesystem
from seamark.storage.files.memory import MemoryFilesystem
from seamark.storage.files.open_files import OpenFiles
from seamark.storage.files.real import RealFilesystem
from seamark.storage.log import AppendResult, Log
from seamark.storage.settings import Durability, LogSettings
from seamark.storage.sync import PendingSync

__all__ = [
    "AppendResult",
    "CorruptBatch",
    "DiskFull",
    "Durability",
    "File",
    "Filesystem",
    "Log",
    "LogError",
    "LogSettings",
    "MemoryFilesystem",
    "MissingFile",
    "OffsetOutOfRange",
    "OpenFiles",
    "PendingSync",
    "RealFilesystem",
    "StorageFailed",
    "TooManyOpenFiles",
    "TornTail",
    "UnknownFormat",
    "WritesStopped",
]

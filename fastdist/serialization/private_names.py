"""Types and helpers of PyTorch's module serialization.py that other packages import."""

from __future__ import annotations

import os
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from ..core.device import Device
from ..core.folded_frames import folds
from ..tensor.typed_storage import TypedStorage, UntypedStorage
from .locations import restorer
from .safe_globals import find_safe

FileLike = str | os.PathLike[str] | IO[bytes]
STORAGE = TypedStorage | UntypedStorage
Storage = UntypedStorage
MAP_LOCATION = Callable[[Any, str], Any] | Device | str | dict[str, str] | None

# The magic number of files in formats before 1.6.
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
STORAGE_KEY_SEPARATOR = ","


class SourceChangeWarning(Warning):
    """A warning that saved source code differs from the current code. It is never issued."""


def _is_path(name_or_buffer: object) -> bool:
    return isinstance(name_or_buffer, str | os.PathLike)


def _is_zipfile(f: IO[bytes]) -> bool:
    """Return whether a zip archive begins at the file's position; the position does not change."""
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    return head == b"PK\x03\x04"


def _maybe_decode_ascii(bytes_str: bytes | str) -> str:
    return bytes_str.decode("ascii") if isinstance(bytes_str, bytes) else bytes_str


@contextmanager
def _open_file_like(name_or_buffer: Any, mode: str) -> Iterator[IO[bytes]]:
    """Open a path for the `with` block, or yield a file object, which stays open afterwards."""
    if not _is_path(name_or_buffer):
        yield name_or_buffer
        return
    with open(name_or_buffer, mode) as file:
        yield file


def _get_restore_location(map_location: Any) -> Callable[[Any, str], Any]:
    """Return a function (storage, saved location) that moves a storage to its new device."""
    return restorer(map_location)


@folds
def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Return the names of all classes and functions in a saved file that weights_only refuses.

    Args:
        f: A path or a file object of a file that save() wrote.

    Returns:
        The full names, sorted. Nothing from the file is loaded.

    Raises  ValueError for a file of another kind
    """
    with _open_file_like(f, "rb") as file:
        if not _is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by save()")
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if not names:
                raise ValueError("Expected input to be a checkpoint returned by save()")
            data = archive.read(names[0])
    return sorted(f"{m}.{n}" for m, n in set(_globals(data)) if not _is_allowed(m, n))


def _globals(data: bytes) -> Iterator[tuple[str, str]]:
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            yield module, name
        elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
            yield strings[-2], strings[-1]
        elif isinstance(argument, str):
            strings.append(argument)


def _is_allowed(module: str, name: str) -> bool:
    from pickle import UnpicklingError

    try:
        find_safe(module, name)
    except UnpicklingError:
        return False
    return True

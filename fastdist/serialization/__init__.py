"""`save` and `load`: files of tensors in PyTorch's format.

A file is a zip archive, without compression and not split into parts. Its record `data.pkl` is a
pickle that refers to storages by number. The records `data/0`, `data/1` ... are the bytes of the
storages. Each record is aligned to 64 bytes and has a checksum. Tensors that share memory refer to
the same storage. The pickle uses PyTorch's class names, so that both libraries can read it
(`torch_names.py`). Loading never runs code from the file unless the caller allows it
(`safe_unpickler.py`). Saving to a path leaves no partial file (`system/atomic_file.py`). Under the
same rules, loading also reads the two formats of PyTorch before 1.6: pickles followed by bytes
(`legacy_reader.py`), and tar archives (`tar_reader.py`).
"""

from __future__ import annotations

from ..core.missing import load_later
from .loading import load
from .locations import default_restore_location, location_tag
from .safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .saving import DEFAULT_PROTOCOL, save

__all__ = [
    "DEFAULT_PROTOCOL",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "load",
    "location_tag",
    "safe_globals",
    "save",
]

# Types, constants and helpers that other packages import from PyTorch's module of this name. They
# are loaded on first use.
_PRIVATE = """
    FileLike MAGIC_NUMBER MAP_LOCATION PROTOCOL_VERSION STORAGE STORAGE_KEY_SEPARATOR
    SourceChangeWarning Storage _get_restore_location _is_path _is_zipfile _maybe_decode_ascii
    _open_file_like get_unsafe_globals_in_checkpoint
"""
load_later(__name__, dict.fromkeys(_PRIVATE.split(), "private_names"))

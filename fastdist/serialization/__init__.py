"""Files of tensors in PyTorch's format, both ways: `save` and `load`.

A file is a zip archive, neither packed nor split: `data.pkl`, a pickle that refers to storages by
number, and `data/0`, `data/1` ..., their bytes, each at a multiple of 64 and with a checksum.
Tensors that share memory name the same storage. The pickle names PyTorch's classes, so that both
libraries read it (`torch_names.py`); loading never runs code of the file unless that is requested
(`safe_unpickler.py`). A path is written whole or not at all (`system/atomic_file.py`). The formats
of PyTorch before 1.6, pickles and then bytes or a tar archive, are read under the same rules
(`legacy_reader.py`, `tar_reader.py`).
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

# Types, constants and helpers that packages import from PyTorch's file, loaded on first use.
_PRIVATE = """
    FileLike MAGIC_NUMBER MAP_LOCATION PROTOCOL_VERSION STORAGE STORAGE_KEY_SEPARATOR
    SourceChangeWarning Storage _get_restore_location _is_path _is_zipfile _maybe_decode_ascii
    _open_file_like get_unsafe_globals_in_checkpoint
"""
load_later(__name__, dict.fromkeys(_PRIVATE.split(), "private_names"))

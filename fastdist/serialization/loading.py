"""`load`: reads files of `save`, from fastdist or PyTorch."""

from __future__ import annotations

import io
import mmap as _mmap
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ..core.folded_frames import folds, private_cause
from ..core.short_repr import short_repr
from .archive_reader import Archive
from .budget import Budget
from .legacy_reader import LegacyRecords, is_legacy
from .locations import restorer
from .records import Records
from .safe_globals import UnsupportedGlobalError
from .safe_unpickler import SafeUnpickler
from .tar_reader import TarRecords, is_tar
from .torch_names import find, own

_ZIP: Final = b"PK\x03\x04"
# The first bytes of other kinds of files, and descriptions of these kinds.
_FOREIGN: Final = (
    (b"\x93NUMPY", "an array of NumPy's (.npy): numpy.load reads it"),
    (b"\x89HDF", "an HDF5 file: h5py reads it"),
    (b"GGUF", "a GGUF file"),
    (b"\x1f\x8b", "packed by gzip: unpack it first"),
    (b"BZh", "packed by bzip2: unpack it first"),
    (b"\xfd7zXZ", "packed by xz: unpack it first"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself: run `git lfs pull`"),
)
# The size of a tar header.
_HEAD_BYTES: Final = 512


@folds
def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Return the value in a file of fastdist's or PyTorch's save().

    With weights_only, the default, load reads only tensors, numbers, strings and plain containers,
    and runs no code from the file. With weights_only=False, a file you load can run any code.

    Note    reads PyTorch's formats before 1.6 too. With weights_only, each byte of the pickle takes
            at most about 2 us and 160 bytes of memory, and tensors take at most the size of the
            file. In the format of legacy_reader.py, a file object is left at the end of the value
    Raises  pickle.UnpicklingError for another kind of file, or for values that weights_only
            does not allow; RuntimeError for a damaged file; EOFError for an empty file

    Args:
        f: A path, or a file object with `read` and `seek`.
        map_location: Where to put tensors: a device, its name, a dict of names, or a function of a
            storage and a name. None restores the devices that the tensors had when saved.
        pickle_module: The module to use instead of pickle, or None; not with weights_only=True.
        weights_only: Whether to read only data. None means True without a pickle_module.
        mmap: Whether to map the file at a path into memory, so that tensors are read on access;
            None: no. The file is never changed.
        **pickle_load_args: Options of the unpickler, such as the encoding of Python 2 strings.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}
    """
    is_safe = weights_only if weights_only is not None else pickle_module is None
    if is_safe and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    is_path = isinstance(f, str | os.PathLike)
    if not is_path:
        _require_readable(f, mmap)
    called = f"the file {short_repr(os.fspath(f))}" if is_path else f"the {type(f).__name__}"
    restorer(map_location)  # report an invalid map_location before the file is opened
    with _opened(f) as file:
        with _said_of(called, is_safe=is_safe):
            records = _records_of(file, called, restorer(map_location), is_path, bool(mmap))
        if is_safe:
            encoding = pickle_load_args.get("encoding", "utf-8")
            with _said_of(called, is_safe=True):
                budget = Budget(len(records.pickled), records.nbytes)
                found = SafeUnpickler(records.pickled, records.load, budget, encoding).load()
        else:
            found = _load_all(records, pickle_module or pickle, pickle_load_args)
        if isinstance(records, LegacyRecords):
            # Leave the position after this value: a file may contain several values.
            file.seek(records.end)
        return found


def _require_readable(f: Any, mmap: bool | None) -> None:
    """Raise an error unless f, which is not a path, is a file object that load can read.

    Raises  ValueError if `mmap` is True; AttributeError for an object without read, seek or tell
    """
    if mmap:
        raise ValueError(
            "f must be a file path in order to use the mmap argument, got " + type(f).__name__
        )
    if not (hasattr(f, "read") and hasattr(f, "seek") and hasattr(f, "tell")):
        missing = "read" if not hasattr(f, "read") else "seek"
        raise AttributeError(
            f"{type(f).__name__!r} object has no attribute {short_repr(missing)}. You can only "
            "load from a "
            "path or from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        )


def _records_of(file: Any, called: str, restore: Any, is_path: bool, is_mapped: bool) -> Any:
    """Return the Records of a file: its storages, and in `pickled` the pickle that refers to the
    storages.
    """
    head = _head_of(file, called)
    if head.startswith(_ZIP):
        mapped = _mapped(file) if is_mapped else None
        archive = Archive(file, called, mapped)
        if "constants.pkl" in archive:
            raise RuntimeError(
                f"{called} is a TorchScript archive, which holds code; save a state_dict() with "
                "PyTorch instead"
            )
        return _ArchiveRecords(archive, restore)
    is_old = is_legacy(head)
    if not is_old and not is_tar(head):
        raise pickle.UnpicklingError(f"{called} is not a file of save(): it is {_kind_of(head)}")
    if is_mapped:
        raise RuntimeError(
            "mmap can only be used with files saved with "
            "`_use_new_zipfile_serialization=True`, and "
            f"{called} is in the format before 1.6: load it without mmap, and save it again"
        )
    if not is_old:
        return TarRecords(file, restore)
    records = LegacyRecords(file, restore)
    if is_path and records.end != (size := file.seek(0, 2)):
        file.seek(records.end)
        if is_legacy(file.read(_HEAD_BYTES)):
            # The file contains several values: return the first one, as PyTorch does.
            return records
        raise RuntimeError(
            f"{size - records.end} bytes follow the last storage of {called}: it was "
            "changed on its way, or holds something else as well"
        )
    return records


@contextmanager
def _said_of(called: str, *, is_safe: bool) -> Iterator[None]:
    """Add the file's name and advice to errors that the `with` block raises while reading."""
    begin = "Weights only load failed. " if is_safe else ""
    try:
        yield
    except UnsupportedGlobalError as error:
        raise pickle.UnpicklingError(
            f"{begin}{called} needs more than tensors and plain values: "
            f"WeightsUnpickler error: {error}. With weights_only=False it may load, and can run "
            "any code then: do that only if you trust who made the file"
        ) from private_cause(error)
    except pickle.UnpicklingError as error:
        if str(error).startswith(called):
            raise
        by = "WeightsUnpickler error: " if is_safe else ""
        raise pickle.UnpicklingError(
            f"{begin}{called} is damaged, or no save() made it: {by}{error}"
        ) from private_cause(error)


@contextmanager
def _opened(f: Any) -> Iterator[Any]:
    if isinstance(f, str | os.PathLike):
        with open(f, "rb", buffering=0) as file:
            yield file
    else:
        yield f


def _mapped(file: Any) -> _mmap.mmap:
    # Copy on write: changed pages belong to this process, and the file stays unchanged.
    return _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_COPY)


def _head_of(file: Any, called: str) -> bytes:
    """Return the first bytes of a file, without moving its position.

    Raises  TypeError for a text file, EOFError for an empty file
    """
    start = file.tell()
    head = file.read(_HEAD_BYTES)
    file.seek(start)
    if not isinstance(head, bytes):
        raise TypeError(f"{called} gives text; open it in binary mode ('rb')")
    if not head:
        raise EOFError(f"Ran out of input: {called} is empty")
    return head


def _kind_of(head: bytes) -> str:
    """Return a description of the kind of file that begins with these bytes."""
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            return what
    if head.startswith(b"\x80"):
        return (
            "a pickle, which is code: neither load() nor anything else should read it unless you "
            "trust who made it"
        )
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return "a safetensors file: fastdist.utils.safetensors.load_file reads it"
    if all(byte in b"\t\n\r\f\x1b" or byte >= 32 for byte in head[:64]):
        return f"text that begins with {short_repr(head[:24].decode('utf-8', 'replace'))}"
    return f"something that begins with the bytes {head[:8].hex(' ')}"


class _ArchiveRecords(Records):
    """The storages of a zip archive."""

    def __init__(self, archive: Archive, restore: Any) -> None:
        super().__init__(restore)
        self._archive = archive
        self.nbytes = archive.nbytes
        order = archive.text("byteorder") if "byteorder" in archive else "little"
        if order not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {order}")
        self._is_swapped = order != sys.byteorder
        self.pickled = archive.read("data.pkl").tobytes()

    def _size(self, key: str) -> int:
        return self._archive.size(f"data/{key}")

    def _bytes(self, key: str, dtype: Any) -> Any:
        data = self._archive.read(f"data/{key}")
        if self._is_swapped and dtype is not None and dtype.itemsize > 1:
            return data.view(dtype.numpy).byteswap().view(np.uint8)
        return data


def _load_all(records: Any, pickle_module: Any, more: dict[str, Any]) -> Any:
    class Unpickler(pickle_module.Unpickler):  # type: ignore[misc]
        def persistent_load(self, saved_id: Any) -> Any:
            return records.load(saved_id)

        def find_class(self, module: str, name: str) -> Any:
            found = own(module, name)
            if found is not None:
                return found
            if module == "torch" or module.startswith("torch."):
                return find(module, name)
            return super().find_class(module, name)

    return Unpickler(io.BytesIO(records.pickled), **more).load()

"""One worker's file, in the format of `fastdist.save`, which is read record by record."""

# Note [Records and tensors] No two tensors of a file share memory, so the first tensor is the
# record data/0, the second data/1, and so on. The manifest has the checksum of each record, copied
# from the table of the file's archive. If the table of a file has other checksums than the
# manifest, the file belongs to another save. Reading a record shows whether its bits have changed
# since it was written.

from __future__ import annotations

import os
import pickle
import sys
from types import TracebackType
from typing import Any

import numpy as np

from ...core.dtypes import DType
from ...core.folded_frames import private_cause
from ...serialization import load, save
from ...serialization.archive_reader import Archive, ArchiveError
from ...tensor.tensor import Tensor
from .errors import CheckpointException
from .metadata import ChunkStorageMetadata
from .open_inside import require_inside

Array = np.ndarray[Any, np.dtype[Any]]


def write_shard(path: str, tensors: list[Tensor], values: dict[str, Any]) -> list[int]:
    """Write a file to the disk; return the checksum of each tensor's bytes.

    Raises  OSError if the disk is full
    """
    save({"tensors": tensors, "values": values}, path)
    with open(path, "rb", buffering=0) as file:
        archive = Archive(file, f"the file {path!r}")
        return [archive.checksum(f"data/{number}") for number in range(len(tensors))]


class ShardFile:
    """The file of a worker, open for reading.

    Raises  CheckpointException if the file is missing, damaged, or from another save
    """

    def __init__(self, folder: str, name: str, size: int) -> None:
        self._path = os.path.join(folder, name)
        self._values: dict[str, Any] | None = None
        try:
            require_inside(folder, name)
            self._file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - closed in __exit__
        except FileNotFoundError:
            raise self._broken("it is missing") from None
        try:
            found = os.fstat(self._file.fileno()).st_size
            if found != size:
                raise self._broken(f"it has {found} bytes, and the manifest says {size}")
            self._archive = Archive(self._file, f"the file {self._path!r}")
        except CheckpointException:
            self._file.close()
            raise
        except ArchiveError as error:
            self._file.close()
            raise self._broken(str(error)) from private_cause(error)

    def read(self, chunk: ChunkStorageMetadata, dtype: DType) -> Array:
        """Return a copy of a chunk's elements."""
        record = f"data/{chunk.record}"
        archive = self._archive
        try:
            if record not in archive or archive.checksum(record) != chunk.checksum:
                raise self._broken(f"its record {record!r} is not the one that the manifest names")
            data = archive.read(record)
        except ArchiveError as error:
            raise self._broken(str(error)) from private_cause(error)
        if data.nbytes != chunk.box.numel * dtype.itemsize:
            raise self._broken(
                f"its record {record!r} has {data.nbytes} bytes for {chunk.box.numel} elements of "
                f"{dtype.name}"
            )
        values = data.view(dtype.numpy).reshape(tuple(chunk.sizes))
        is_swapped = self._archive.text("byteorder") != sys.byteorder
        return values.byteswap() if is_swapped else values

    def value(self, key: str) -> Any:
        """Return the value with this key, which is not a tensor; `read` returns tensors."""
        if self._values is None:
            try:
                content = load(self._path, mmap=True, weights_only=True)
            except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
                raise self._broken(str(error)) from private_cause(error)
            values = content.get("values") if isinstance(content, dict) else None
            if not isinstance(values, dict):
                raise self._broken("it holds something else")
            self._values = values
        if key not in self._values:
            raise self._broken(f"it has no value {key!r}")
        return self._values[key]

    def _broken(self, why: str) -> CheckpointException:
        return CheckpointException(
            f"the file {self._path!r} of the checkpoint is damaged, or not of this save: {why}; "
            "nothing was loaded; latest(FOLDER, verify=True) finds the newest checkpoint whose "
            "checksums hold"
        )

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

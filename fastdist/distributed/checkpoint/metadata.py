"""The contents of a checkpoint: a tensor's size, dtype and chunks, or a plain value, by key."""

# Note [One form of the list] A worker describes its file in a FileRow of plain lists. The row is
# sent, and written into the manifest, in this form. `merged` creates Metadata from all rows and
# checks whether they fit together: before the manifest is written, and when it is read. So the same
# check detects a manifest that is truncated, edited by hand or malicious.

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ...core import dtypes
from ...core.dtypes import DType
from ...core.folded_frames import private_cause
from ...tensor.layout import Size
from .box import Box, whole
from .errors import CheckpointException
from .tree import Path, key_of

# A FileRow has these keys and values:
# {"name", "bytes", "worker", "entries": [["tensor", path, dtype, size, offsets, sizes, record, crc]
# or ["value", path, crc] ...]}
FileRow: TypeAlias = dict[str, Any]

_DTYPES = {dtype.name: dtype for dtype in dtypes.ALL}
_MOST_AXES = 64
_MOST_STEPS = 200


@dataclass(frozen=True)
class TensorProperties:
    """The properties of a tensor other than its size.

    Args:
        dtype: The dtype.
    """

    dtype: DType


@dataclass(frozen=True)
class ChunkStorageMetadata:
    """A part of a tensor, with the file and the record in the file that contain this part."""

    offsets: Size
    sizes: Size
    file: str
    record: int
    checksum: int

    @property
    def box(self) -> Box:
        """The part of the tensor that the chunk contains."""
        return Box(tuple(self.offsets), tuple(self.sizes))


@dataclass(frozen=True)
class TensorStorageMetadata:
    """A tensor and its saved chunks, which together cover the tensor without overlaps."""

    properties: TensorProperties
    size: Size
    chunks: tuple[ChunkStorageMetadata, ...]


@dataclass(frozen=True)
class BytesStorageMetadata:
    """A value that is not a tensor, and the file that contains it."""

    file: str
    checksum: int


@dataclass(frozen=True)
class Metadata:
    """The contents of a checkpoint.

    `files` has the length of each file, `workers` the name of the worker that wrote it. `paths` has
    the path of each key in the state dict. `saved_at` increases with each checkpoint in a folder.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    paths: dict[str, Path]
    files: dict[str, int]
    workers: dict[str, str]
    coordinator: str = ""
    saved_at: int = 0
    rows: list[FileRow] = field(default_factory=list, repr=False)

    def below(self, path: Path) -> dict[Path, str]:
        """Return a dict from the rest of the path to the key, for all keys at or below `path`."""
        depth = len(path)
        return {way[depth:]: key for key, way in self.paths.items() if way[:depth] == path}


def merged(rows: Iterable[FileRow], coordinator: str = "", saved_at: int = 0) -> Metadata:
    """Return the merged contents of several files.

    A value that is equal in several files is used once.

    Raises  CheckpointException if parts are missing or do not fit together, or a row is invalid
    """
    rows = list(rows)
    found = Metadata({}, {}, {}, {}, coordinator, saved_at, rows)
    for row in rows:
        name = _taken(row, "name", str)
        if name in found.files or not is_plain_name(name):
            raise CheckpointException(f"the manifest is damaged: it names a file {name!r}")
        found.files[name] = _taken(row, "bytes", int)
        found.workers[name] = _taken(row, "worker", str)
        for entry in _taken(row, "entries", list):
            try:
                _enter(found, name, entry)
            except (TypeError, ValueError, KeyError, IndexError) as error:
                raise CheckpointException(
                    f"the manifest is damaged: {entry!r} is not an entry"
                ) from private_cause(error)
    left = dict(found.files)
    for key, known in found.state_dict_metadata.items():
        if isinstance(known, TensorStorageMetadata):
            _require_whole(key, known)
            for chunk in known.chunks:
                left[chunk.file] -= chunk.box.numel * known.properties.dtype.itemsize
    # The tensors that a manifest describes must not be larger than its files: reading them would
    # allocate more memory than the files have data.
    if any(number < 0 for number in left.values()):
        raise CheckpointException("the manifest is damaged: it has more data than its files")
    return found


def is_plain_name(name: str) -> bool:
    """Return whether a file name has no folders, so that the file is in the checkpoint's folder."""
    return bool(name) and not any(sign in name for sign in "/\\:\0") and not name.startswith(".")


def _taken(row: Any, word: str, kind: type) -> Any:
    value = row.get(word) if isinstance(row, dict) else None
    if type(value) is not kind:
        raise CheckpointException(f"the manifest is damaged: a file's {word!r} is {value!r}")
    return value


def _enter(found: Metadata, file: str, entry: list[Any]) -> None:
    kind, way, *rest = entry
    path = tuple(tuple(step) if isinstance(step, list) else step for step in way)
    if len(path) > _MOST_STEPS or not all(_is_step(step) for step in path):
        raise ValueError(path)
    key = key_of(path)
    if found.paths.setdefault(key, path) != path:
        raise CheckpointException(
            f"two things would have the key {key!r}: {found.paths[key]} and {path}; rename one"
        )
    known = found.state_dict_metadata.get(key)
    if kind == "value":
        (checksum,) = rest
        if known is None:
            found.state_dict_metadata[key] = BytesStorageMetadata(file, _whole(checksum))
        elif not isinstance(known, BytesStorageMetadata) or known.checksum != checksum:
            other = known.file if isinstance(known, BytesStorageMetadata) else "a tensor"
            raise CheckpointException(_told_twice(key, found, file, other))
        return
    if kind != "tensor":
        raise ValueError(kind)
    word, size, offsets, sizes, record, checksum = rest
    numbers = (Size(map(_whole, axis)) for axis in (size, offsets, sizes))
    size, offsets, sizes = numbers
    chunk = ChunkStorageMetadata(offsets, sizes, file, _whole(record), _whole(checksum))
    properties = TensorProperties(_DTYPES[word])
    if len(size) > _MOST_AXES or not chunk.box.lies_in(tuple(size)):
        raise ValueError(chunk)
    if known is None:
        known = TensorStorageMetadata(properties, size, ())
    elif not isinstance(known, TensorStorageMetadata):
        raise CheckpointException(_told_twice(key, found, file, known.file))
    elif (known.properties, known.size) != (properties, size):
        raise CheckpointException(
            f"{key!r} is a {known.properties.dtype.name} tensor of size {tuple(known.size)} on one "
            f"worker and a {word} one of size {tuple(size)} on {found.workers[file]!r}"
        )
    found.state_dict_metadata[key] = _with_chunk(key, found, known, chunk)


def _with_chunk(
    key: str, found: Metadata, known: TensorStorageMetadata, chunk: ChunkStorageMetadata
) -> TensorStorageMetadata:
    for other in known.chunks:
        if other.box == chunk.box:
            if other.checksum != chunk.checksum:
                raise CheckpointException(_told_twice(key, found, chunk.file, other.file))
            return known
        if other.box.overlap(chunk.box):
            raise CheckpointException(
                f"two parts of {key!r} overlap: {tuple(other.sizes)} at {tuple(other.offsets)} and "
                f"{tuple(chunk.sizes)} at {tuple(chunk.offsets)}"
            )
    return TensorStorageMetadata(known.properties, known.size, (*known.chunks, chunk))


def _told_twice(key: str, found: Metadata, file: str, other: str) -> str:
    one, two = (found.workers.get(name, name) for name in (other, file))
    return (
        f"{key!r} differs between {one!r} and {two!r}; values that each worker has for itself, "
        "such as the state of its random numbers, need their own key: put the worker's name into "
        "it; pass parts of a model that name their parameters alike as a dict, not as a list: "
        '{"model": {"first": rref, "second": rref}}'
    )


def _require_whole(key: str, known: TensorStorageMetadata) -> None:
    size = tuple(known.size)
    wanted = whole(size).numel
    given = sum(chunk.box.numel for chunk in known.chunks)
    if given != wanted:
        raise CheckpointException(
            f"{key!r}, size {size}: the workers have {given} of its {wanted} elements; the "
            "worker with the other parts did not take part"
        )


def _is_step(step: Any) -> bool:
    if isinstance(step, tuple):
        return len(step) == 2 and step[0] in ("list", "tuple") and type(step[1]) is int
    return type(step) in (str, int)


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(number)
    return number

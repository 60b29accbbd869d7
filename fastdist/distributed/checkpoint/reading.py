"""Loads a checkpoint: all files are read and checked before any object is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ...core.dtypes import DType
from ...core.errors import DTypeError, ShapeError
from ...graph.modes import no_grad
from ...nn import Module
from ...ops.create.creation import from_numpy
from ...optim.optimizer import Optimizer
from ...tensor.layout import Size
from ...tensor.tensor import Tensor
from .box import Box, whole
from .contents import Thing, is_stateful, named_groups, names_of_parameters, optimizer_at
from .errors import CheckpointException
from .manifest import read_manifest
from .metadata import ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .shard_file import Array, ShardFile
from .sharded_tensor import ShardedTensor
from .tree import Path, key_of, leaves, rebuilt

Change = Callable[[], object]
_LISTED = 5


def readied(folder: str, things: Sequence[Thing], *, allow_partial: bool) -> list[Change]:
    """Read and check a checkpoint's values for the objects; return functions that apply them.

    Raises  CheckpointException, ShapeError or DTypeError if a value is damaged, missing or
            different
    """
    with Reader(folder, allow_partial=allow_partial) as reader:
        names = names_of_parameters(things)
        asked = [_asked(thing, names, reader) for thing in things]
        reader.require([key for keys, _ in asked for key in keys])
        return [change for _, ready in asked for change in ready()]


class Reader:
    """An open checkpoint. Each file is opened once, and the checksum of each chunk is checked."""

    def __init__(self, folder: str, *, allow_partial: bool = False) -> None:
        self.metadata: Metadata = read_manifest(folder)
        self.allow_partial = allow_partial
        self._folder = folder
        self._files: dict[str, ShardFile] = {}
        self._open = ExitStack()
        # Several parts of one tensor are often in the same chunk.
        self._latest: tuple[ChunkStorageMetadata, Array] | None = None

    def require(self, keys: Iterable[str]) -> None:
        """Check that keys were saved.

        Raises  CheckpointException with the keys that are missing
        """
        keys = list(keys)
        saved = self.metadata.state_dict_metadata
        missing = [key for key in keys if key not in saved]
        if not missing or self.allow_partial:
            return
        listed = ", ".join(missing[:_LISTED])
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        if len(missing) == len(keys):
            known = ", ".join(list(saved)[:_LISTED])
            told = (
                f"none of {len(keys)} keys is in it, so it seems to belong to another job: {known}"
            )
            told += " ..." if len(saved) > _LISTED else ""
        else:
            near = get_close_matches(missing[0], list(saved), 3)
            told = f"nearest: {', '.join(near)}" if near else f"it has {len(saved)} other keys"
        raise CheckpointException(
            f"Missing key in checkpoint state_dict: {listed}{more}. The checkpoint {self._folder!r}"
            f" was saved by {self.metadata.coordinator!r}; {told}. "
            "DefaultLoadPlanner(allow_partial_load=True) leaves what is missing as it is"
        )

    def has(self, key: str) -> bool:
        """Return whether a key was saved."""
        return key in self.metadata.state_dict_metadata

    def value(self, key: str, like: Any = None) -> Any:
        """Return the value that was saved under a key; a tensor is returned complete.

        `like` is the value that will be replaced.

        Raises  ShapeError or DTypeError if the tensor's size or dtype differs from `like`
        """
        known = self.metadata.state_dict_metadata[key]
        if isinstance(known, TensorStorageMetadata):
            if isinstance(like, Tensor):
                self._require_alike(key, known, like.size(), like.dtype)
            return from_numpy(self.array(key, whole(tuple(known.size))))
        if isinstance(like, Tensor) and not like.is_sparse:
            raise _no_tensor(key)
        return self._file(known.file).value(key)

    def into_shards(self, key: str, like: ShardedTensor) -> list[Change]:
        """Return functions that fill the local parts of `like`. The data is read now, from all
        chunks that overlap these parts.
        """
        known = self.metadata.state_dict_metadata[key]
        if not isinstance(known, TensorStorageMetadata):
            raise _no_tensor(key)
        changes: list[Change] = []
        for tensor, at in like.local_shards():
            self._require_alike(key, known, like.size(), tensor.dtype)
            part = from_numpy(self.array(key, Box(at, tuple(tensor.shape))))
            changes.append(partial(_copy_into, tensor, part))
        return changes

    def _require_alike(
        self, key: str, known: TensorStorageMetadata, size: Size, dtype: DType
    ) -> None:
        if tuple(known.size) != tuple(size):
            raise ShapeError(
                f"Size mismatch between saved {known.size} and current: {size} for {key}; nothing "
                "was loaded: make the model as it was when it was saved"
            )
        if known.properties.dtype is not dtype:
            raise DTypeError(
                f"{key!r} is {known.properties.dtype.name} in the checkpoint and {dtype.name} "
                f"here; nothing was loaded: convert it, to({known.properties.dtype.name}), load, "
                "and convert it back"
            )

    def array(self, key: str, box: Box) -> Array:
        """Return a copy of a part of a tensor."""
        known = self.metadata.state_dict_metadata[key]
        assert isinstance(known, TensorStorageMetadata)
        dtype = known.properties.dtype
        touched = [(c, part) for c in known.chunks if (part := c.box.overlap(box)) is not None]
        if len(touched) == 1 and touched[0][0].box == box:
            return self._chunk(touched[0][0], dtype)
        for chunk, _ in touched:
            self._file(chunk.file)  # checks the file's length before memory is allocated
        made: Array = np.empty(box.sizes, dtype.numpy)
        for chunk, part in touched:
            made[part.within(box)] = self._chunk(chunk, dtype)[part.within(chunk.box)]
        return made

    def _chunk(self, chunk: ChunkStorageMetadata, dtype: DType) -> Array:
        if self._latest is not None and self._latest[0] is chunk:
            return self._latest[1].copy()
        found = self._file(chunk.file).read(chunk, dtype)
        self._latest = (chunk, found) if found.size < 1 << 24 else None
        return found

    def _file(self, name: str) -> ShardFile:
        if name not in self._files:
            opened = ShardFile(self._folder, name, self.metadata.files[name])
            self._files[name] = self._open.enter_context(opened)
        return self._files[name]

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


# The keys that an entry needs in the checkpoint, and a function that reads their values.
_Asked = tuple[list[str], Callable[[], list[Change]]]


def _no_tensor(key: str) -> CheckpointException:
    return CheckpointException(f"{key!r} is a plain value in the checkpoint, and a tensor here")


def _asked(thing: Thing, names: Mapping[int, str], reader: Reader) -> _Asked:
    path, value, _ = thing
    optimizer, at = optimizer_at(path, value)
    if optimizer is not None and (named := named_groups(optimizer, names)) is not None:
        return _named_optimizer(optimizer, path, named, reader)
    if isinstance(value, Module):
        return _module(value, path, reader)
    if optimizer is not None:
        return _stateful(optimizer, at, reader)
    if is_stateful(value):
        return _stateful(value, path, reader)
    return _plain(thing, reader)


def _module(module: Module, path: Path, reader: Reader) -> _Asked:
    """Load the entries that a module has now, even if other entries were saved."""
    own = module.state_dict()
    keys = {name: key_of((*path, name)) for name in own}

    def ready() -> list[Change]:
        found = {n: reader.value(key, own[n]) for n, key in keys.items() if reader.has(key)}
        return [partial(module.load_state_dict, found, strict=not reader.allow_partial)]

    return list(keys.values()), ready


def _stateful(value: Any, path: Path, reader: Reader) -> _Asked:
    """Load everything that was saved under the key of a stateful object that is not a module: its
    state may have other entries now than it had then.
    """
    below = reader.metadata.below(path)

    def ready() -> list[Change]:
        if not below:
            return []
        have = dict(leaves(value.state_dict(), path))
        found: dict[Path, Any] = {}
        changes: list[Change] = []
        for way, key in below.items():
            like = have.get((*path, *way))
            if isinstance(like, ShardedTensor):
                changes += reader.into_shards(key, like)
                found[way] = like
            else:
                found[way] = reader.value(key)
        return [*changes, partial(value.load_state_dict, rebuilt(found))]

    return list(below.values()) or [key_of(path)], ready


def _plain(thing: Thing, reader: Reader) -> _Asked:
    """Load a value without state_dict(): change tensors in place, replace others in the holder."""
    wanted: dict[Path, Any] = {}
    for way, leaf in leaves(thing.value, ()):
        # An empty dict loads everything that was saved under its path. An example is an optimiser's
        # state before the first step.
        below = reader.metadata.below((*thing.path, *way)) if leaf == {} else {}
        wanted.update(dict.fromkeys(((*way, *more) for more in below), None) or {way: leaf})
    keys = {way: key_of((*thing.path, *way)) for way in wanted}

    def ready() -> list[Change]:
        changes: list[Change] = []
        for way, like in wanted.items():
            key = keys[way]
            if not reader.has(key):
                continue
            if isinstance(like, ShardedTensor):
                changes += reader.into_shards(key, like)
                continue
            found = reader.value(key, like)
            if isinstance(like, Tensor) and not like.is_sparse:
                changes.append(partial(_copy_into, like, found))
            elif way or thing.holder is not None:
                changes.append(partial(_put, thing, way, found))
            else:
                raise CheckpointException(
                    f"{key!r} is a {type(like).__name__}, which cannot be replaced through an "
                    "RRef; refer to a dict that holds it, or to an object with load_state_dict()"
                )
        return changes

    return list(keys.values()), ready


def _named_optimizer(
    optimizer: Optimizer, path: Path, groups: list[list[str]], reader: Reader
) -> _Asked:
    below = reader.metadata.below
    options = [[below((*path, "param_groups", name)) for name in group] for group in groups]
    states = [below((*path, "state", name)) for name in chain.from_iterable(groups)]
    keys = [key for group in options for found in group for key in found.values()]

    def values(found: Mapping[Path, str]) -> Any:
        return rebuilt({way: reader.value(key) for way, key in found.items()})

    def ready() -> list[Change]:
        numbers = iter(range(len(states)))
        packed: list[dict[str, Any]] = []
        for saved, group in zip(options, groups, strict=True):
            each = [values(found) for found in saved if found]
            if any(repr(other) != repr(each[0]) for other in each):
                raise CheckpointException(
                    f"the parameters {', '.join(group[:_LISTED])} had several groups of options "
                    "when they were saved and have one now: make the optimiser as it was then"
                )
            own = {} if each else _own_options(optimizer, len(packed))
            packed.append({**(each[0] if each else own), "params": [next(numbers) for _ in group]})
        state = {number: values(found) for number, found in enumerate(states) if found}
        return [partial(optimizer.load_state_dict, {"state": state, "param_groups": packed})]

    unknown = [f"{key_of(path)}.param_groups.{g[0]}" for g, o in zip(groups, options) if not any(o)]
    return keys + unknown, ready


def _own_options(optimizer: Optimizer, place: int) -> dict[str, Any]:
    group = optimizer.state_dict()["param_groups"][place]
    return {word: value for word, value in group.items() if word != "params"}


@no_grad()
def _copy_into(tensor: Tensor, found: Tensor) -> None:
    tensor.copy_(found)


def _put(thing: Thing, way: Path, value: Any) -> None:
    """Replace a value in the dict or list that contains it; `way` is its path in the thing."""
    holder = thing.holder if not way else thing.value
    steps = way or thing.path[-1:]
    for step, following in zip(steps, (*steps[1:], None)):
        place = step[1] if isinstance(step, tuple) else step
        if following is None:
            holder[place] = value
        elif isinstance(holder, dict) and place not in holder:
            holder = holder.setdefault(place, {})
        else:
            holder = holder[place]

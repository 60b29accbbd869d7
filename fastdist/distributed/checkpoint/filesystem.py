"""The writer and the reader of checkpoint folders, under PyTorch's names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .errors import CheckpointException
from .manifest import read_manifest
from .metadata import Metadata

Where = str | os.PathLike[str]


@dataclass(frozen=True)
class FileSystemWriter:
    """A folder to save to, with options; without options, pass only `checkpoint_id` to save.

    overwrite: whether an existing checkpoint may be replaced. With None (the default), only the
    worker that wrote the checkpoint may replace it. cache_staged_state_dict: whether the memory of
    async_save's copies is kept, for the next async_save. Then async_save blocks training for a
    tenth of the time, but the copies stay in memory.

    Args:
        path: The folder.
    """

    path: Where
    overwrite: bool | None = None
    cache_staged_state_dict: bool = False

    @property
    def checkpoint_id(self) -> str:
        """The folder."""
        return os.fspath(self.path)


@dataclass(frozen=True)
class FileSystemReader:
    """A folder to load from; passing only `checkpoint_id` to load has the same effect.

    Args:
        path: The folder of the checkpoint.
    """

    path: Where

    @property
    def checkpoint_id(self) -> str:
        """The folder."""
        return os.fspath(self.path)

    def read_metadata(self) -> Metadata:
        """Return the metadata of the checkpoint.

        Raises  CheckpointException if there is no checkpoint, or its manifest is damaged
        """
        return read_manifest(self.checkpoint_id)


@dataclass(frozen=True)
class DefaultLoadPlanner:
    """Selects how load handles missing values: with allow_partial_load they stay unchanged."""

    allow_partial_load: bool = False


def chosen(function: str, kind: type, checkpoint_id: Any, storage: Any) -> Any:
    """Return the writer or reader for the caller's arguments.

    Raises  TypeError for a wrong type; CheckpointException without a folder or for two folders
    """
    if storage is None:
        if checkpoint_id is None:
            raise CheckpointException(
                f"{function}: no folder is given: pass checkpoint_id=FOLDER, or a "
                f"{kind.__name__}(FOLDER)"
            )
        if not isinstance(checkpoint_id, str | os.PathLike):
            raise TypeError(
                f"{function}: checkpoint_id is a folder's path, got {type(checkpoint_id).__name__}"
            )
        return kind(checkpoint_id)
    if not isinstance(storage, kind):
        raise TypeError(f"{function}: expected a {kind.__name__}, got {type(storage).__name__}")
    own: str = storage.checkpoint_id  # type: ignore[attr-defined]
    if checkpoint_id is not None and os.fspath(checkpoint_id) != own:
        raise CheckpointException(
            f"{function}: checkpoint_id={os.fspath(checkpoint_id)!r}, and the {kind.__name__} is "
            f"for {own!r}; give one of them"
        )
    return storage

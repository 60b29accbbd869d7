"""Where checkpoints are: a folder of files, by PyTorch's names for writers and readers of them."""

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
    """A folder to save to; what a checkpoint_id alone stands for.

    overwrite: whether a checkpoint that is there may be replaced; None (the default) lets those
    replace it who wrote it. cache_staged_state_dict: keep the copies that async_save makes for the
    next one, which then stops the training for a tenth of the time, and as much memory stays taken.
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
    """A folder to load from; what a checkpoint_id alone stands for."""

    path: Where

    @property
    def checkpoint_id(self) -> str:
        """The folder."""
        return os.fspath(self.path)

    def read_metadata(self) -> Metadata:
        """Return the metadata of the checkpoint.

        Raises  CheckpointException where there is none, or its manifest is damaged
        """
        return read_manifest(self.checkpoint_id)


@dataclass(frozen=True)
class DefaultLoadPlanner:
    """How load takes what is missing: allow_partial_load leaves it as it is here."""

    allow_partial_load: bool = False


def chosen(function: str, kind: type, checkpoint_id: Any, storage: Any) -> Any:
    """Return the writer or reader that a caller means.

    Raises  TypeError, CheckpointException where neither, or both and different, say where
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

"""Converts a checkpoint to one file of `fastdist.save`, and back."""

from __future__ import annotations

import os

from fastdist.core.missing import explain_missing

from ...serialization import load as load_file
from ...serialization import save as save_file
from .reading import Reader
from .saving import save
from .tree import rebuilt


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write the joined contents of a checkpoint to one file, which PyTorch can read as well.

    Raises  CheckpointException if the checkpoint is damaged
    """
    with Reader(os.fspath(dcp_checkpoint_dir)) as reader:
        metadata = reader.metadata
        found = {path: reader.value(key) for key, path in metadata.paths.items()}
    save_file(rebuilt(found), torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write the state dict in a file of PyTorch or fastdist as a checkpoint."""
    save(load_file(torch_save_path), checkpoint_id=dcp_checkpoint_dir)


explain_missing(__name__)

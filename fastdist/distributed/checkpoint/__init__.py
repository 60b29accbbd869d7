"""Checkpoints of jobs: each worker writes its part, and the checkpoint becomes visible atomically.

saving.py       save: finds the owners of a state dict's entries (contents.py), lets each worker
                take a snapshot (snapshot.py) and write it (part.py, shard_file.py) as a file of
                fastdist.save, and then writes the manifest
manifest.py     Note [When a checkpoint is there]; metadata.py, box.py: the chunks of each key,
                and the worker that wrote each chunk
together.py     for the case that several workers call save for one checkpoint; the first of them
                coordinates
loading.py      load: looks up the values for this job's objects by key (reading.py); any worker
                may have written them. All workers read before any of them changes its state
folder.py       finds the newest complete checkpoint; removes old checkpoints and unfinished files
filesystem.py   PyTorch's readers and writers for file systems
rng_state.py    the states of random generators; stateful.py: objects with state_dict()
sharded_tensor.py  tensors whose parts are on different workers
open_inside.py  opens a checkpoint's files without following links out of its folder
errors.py       CheckpointException
state_dict.py   PyTorch's functions for state dicts; format_utils.py: conversion to and from a
                file of fastdist.save; tree.py: state dicts as leaves with paths

The worker that calls save is the coordinator. It reaches entries on other workers through RRefs,
and calls these workers to write their parts. Without RPC there is only one process, which
coordinates and writes.

Whenever the job is killed, the folder has a complete checkpoint, or only files without a
manifest. The next save with keep= removes such files (an empty folder may remain, because another
program may own it). Loading runs no code from a file: tensors are stored as bytes, and values are
read as with weights_only=True.

A checkpoint contains parameters, buffers, optimizers (also those of a DistributedOptimizer), random
generators, and every object with state_dict and load_state_dict. To continue a DataLoader, give it
a generator that is seeded by the epoch, and save the epoch and the number of finished batches.
After loading, skip that many batches with itertools.islice.
"""

from __future__ import annotations

from ...core.missing import explain_missing
from . import format_utils, state_dict
from .errors import CheckpointException
from .filesystem import DefaultLoadPlanner, FileSystemReader, FileSystemWriter
from .folder import latest
from .loading import load
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from .rng_state import RngState
from .saving import async_save, save
from .sharded_tensor import Shard, ShardedTensor
from .stateful import Stateful

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "RngState",
    "Shard",
    "ShardedTensor",
    "Stateful",
    "TensorProperties",
    "TensorStorageMetadata",
    "async_save",
    "format_utils",
    "latest",
    "load",
    "save",
    "state_dict",
]

explain_missing(__name__)

"""Checkpoints of jobs: each worker writes its part, and all of them are there at once or not."""

# The design note of this room.
#
# `save` (saving.py) finds out where everything is that a state dict names (contents.py), has each
# worker take a `snapshot` of what it has and write it (part.py) as a file of fastdist.save
# (shard_file.py), and then lets the manifest appear: see Note [When a checkpoint is there] in
# manifest.py. The coordinator is the worker that calls save; what other workers have it names by
# RRefs, and the parts are asked for by remote calls. Workers that each call save for one checkpoint
# name each other, and the first of them is the coordinator (together.py). Without RPC the one
# process is both.
#
# `load` (loading.py, reading.py) asks by key for what is here now. Which worker wrote a key, and in
# which chunks, stands in the manifest (metadata.py, box.py) and matters no more. All workers read
# before any changes something.
#
# folder.py finds the newest whole checkpoint, and removes what is no longer needed. A kill at any
# moment leaves either no manifest, and files that the next save with keep= removes (an empty folder
# may stay: it could be somebody else's), or a whole checkpoint. Nothing of a file is run: tensors
# are bytes, values are read as by weights_only=True.
#
# What is saved: parameters, buffers, optimisers (those behind a DistributedOptimizer, too), the
# streams of random numbers (rng_state.py), and whatever has state_dict and load_state_dict. The
# place in a DataLoader is a recipe: give it a generator that is seeded by the epoch, save the epoch
# and the number of batches done, and pass that many over with itertools.islice after a load.

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

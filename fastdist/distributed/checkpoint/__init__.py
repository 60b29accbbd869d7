"""Checkpoints of jobs: each worker writes its part, and the whole appears at once or not at all.

saving.py       save: finds where the entries of a state dict are (contents.py), lets each worker
                take a snapshot (snapshot.py) and write it (part.py, shard_file.py) as a file of
                fastdist.save, and then writes the manifest
manifest.py     Note [When a checkpoint is there]; metadata.py, box.py: which worker wrote which
                chunks of which key
together.py     workers that each call save for one checkpoint; the first one coordinates
loading.py      load: asks by key for what this job has now (reading.py); which worker wrote a key
                does not matter. All workers read before any of them changes something
folder.py       finds the newest complete checkpoint, and removes what is not needed any more
filesystem.py   PyTorch's readers and writers of a file system
rng_state.py    the state of random numbers; stateful.py: objects with state_dict()
sharded_tensor.py  tensors of which each worker has a part
open_inside.py  opens files of a checkpoint without following links out of it
errors.py       CheckpointException
state_dict.py   PyTorch's functions for state dicts; format_utils.py: to and from one file of
                fastdist.save; tree.py: state dicts as leaves with their paths

The worker that calls save coordinates: it reaches what other workers have through RRefs, and asks
for the parts by remote calls. Without RPC the only process does both.

A kill at any moment leaves a complete checkpoint, or files without a manifest, which the next save
with keep= removes (an empty folder may stay, because another program may own it). Loading runs no
code from a file: tensors are bytes, and values are read as with weights_only=True.

Saved are parameters, buffers, optimizers (also those behind a DistributedOptimizer), random number
generators, and every object with state_dict and load_state_dict. To continue a DataLoader, give it
a generator seeded by the epoch, save the epoch and the number of finished batches, and skip that
many batches after loading, with itertools.islice.
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

"""Separate pools of memory: tensors that are made in a block share one pool with no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.missing import explain_missing
from ..devices.backend import backend_of
from ..devices.gpus import index_of

__all__ = ["MemPool", "use_mem_pool"]


class MemPool:
    """Memory that only blocks of `use_mem_pool(pool)` get, and graphs that are captured with
    `pool=pool.id`; what is freed there is kept for these. It goes back to the GPU when the pool,
    and all that lies in it, is gone.

    Raises  DeviceError without a GPU; RuntimeError for an allocator of the program's own
    Note    use_on_oom and no_split change nothing: a pool is CuPy's, which splits its blocks
    """

    def __init__(
        self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        if allocator is not None:
            raise RuntimeError(
                "MemPool: memory is allocated by CuPy; leave allocator out, or give CuPy another "
                "with cupy.cuda.set_allocator before fastdist first uses the GPU"
            )
        self.allocator = None
        backend: Any = backend_of("cuda")
        self.id = backend.new_pool()


@contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Inside this block, let what this thread makes on a GPU lie in a pool.

    Raises  DeviceError without that GPU
    """
    backend: Any = backend_of("cuda")
    index = index_of(device)
    backend.properties(index)  # of a GPU that is not there, this tells
    before = backend.allocator.choose(index, pool.id.malloc)
    try:
        yield
    finally:
        backend.allocator.choose(index, before)


explain_missing(__name__)

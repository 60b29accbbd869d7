"""Memory pools: tensors that are made in a `with` block get memory from a separate pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.folded_frames import fold_public
from ..core.missing import explain_missing
from ..devices.backend import backend_of
from ..devices.gpus import index_of

__all__ = ["MemPool", "use_mem_pool"]


class MemPool:
    """A separate pool of GPU memory. Only tensors made in a `with use_mem_pool(pool):` block, and
    graphs captured with `pool=pool.id`, get memory from the pool. Freed memory stays in the pool.
    The GPU gets the memory back when the pool and all of its tensors are gone.

    Raises  DeviceError without a GPU; RuntimeError for a user-defined allocator
    Note    `use_on_oom` and `no_split` have no effect: the pool is a CuPy pool, which splits its
            blocks
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
    """In the `with` block, allocate this thread's new tensors on a GPU from a pool.

    Raises  DeviceError if there is no such GPU
    """
    backend: Any = backend_of("cuda")
    index = index_of(device)
    backend.properties(index)  # raises an error if there is no such GPU
    before = backend.allocator.choose(index, pool.id.malloc)
    try:
        yield
    finally:
        backend.allocator.choose(index, before)


fold_public(__name__)
explain_missing(__name__)

"""The ways of a large tensor from worker to worker, by name: what a user may choose from."""

# There are three. `basic` is the message: a buffer goes in its first frame if it is small, and in
# frames of its own otherwise. `arena` is memory that processes of one machine share
# (distributed/arena), for what it can take; all else goes by `basic`. `cuda_basic` is how a GPU's
# tensors come to one of these and leave it: through locked memory of the CPU (devices/staging.py),
# which asks for no GPU where none is used. To choose says no more than whether the arena is
# used. The other names are PyTorch's, each with the reason why it is not offered, so that a user
# who asks for it alone is told.

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastdist.distributed.arena.layout import why_not_viable
from fastdist.distributed.pipe.registry import NotViable, Registered, Registry

ARENA: Final = "arena"
_THROUGH_HOST: Final = (
    "not part of this version; tensors of GPUs go through locked memory of the CPU, by cuda_basic"
)
_NO_SLABS: Final = (
    "not part of this version: CuPy's pool frees and splits its memory whatever a peer has opened, "
    "so tensors would need slabs of their own; those of GPUs go by cuda_basic"
)


class Channel:
    """A way that this version has; `why_not_viable` says what a machine lacks for it."""

    def __init__(self, why_not_viable: Callable[[], str | None]) -> None:
        self.why_not_viable = why_not_viable


channels: Registry[Registered] = Registry("channel")
channels.register(ARENA, 1300, Channel(why_not_viable))
channels.register("cma", 1200, NotViable("process_vm_readv is not part of this version"))
channels.register("mpt_uv", 1100, NotViable("striping over TCP is not part of this version"))
channels.register("basic", 1000, Channel(lambda: None))
channels.register("cuda_xth", 400, NotViable(_THROUGH_HOST))
channels.register("cuda_ipc", 300, NotViable(_NO_SLABS))
channels.register("cuda_gdr", 200, NotViable(_THROUGH_HOST))
channels.register("cuda_basic", 0, Channel(lambda: None))

"""The public modules of fastdist, which tests of names and signatures read."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from bench.torch_names import read
from fastdist.as_torch import ROOMS

# Names in ROOMS that are commands, not modules with public names.
COMMANDS = {"info"}
_BELOW = """
    autograd.forward_ad autograd.functional autograd.graph autograd.profiler
    distributed.autograd distributed.checkpoint distributed.device_mesh distributed.distributed_c10d
    distributed.explain distributed.monitor distributed.nn distributed.optim distributed.preemption
    distributed.profiler distributed.rendezvous distributed.restarts distributed.rpc
    distributed.store nn.attention nn.functional nn.init nn.modules nn.parallel nn.utils
    nn.utils.parametrize nn.utils.rnn optim.lr_scheduler utils.checkpoint utils.data
"""


@functools.cache
def public_modules() -> dict[str, ModuleType]:
    """Return the public modules by path below fastdist, without those that only PyTorch has."""
    rooms = {room for room in ROOMS - COMMANDS if not room.startswith("_")}
    of_pytorch = {path for path in read()["names"] if path.rpartition(".")[2].islower()}
    found = {}
    for path in sorted(rooms | of_pytorch | set(_BELOW.split())):
        try:
            found[path] = importlib.import_module(f"fastdist.{path}")
        except ModuleNotFoundError as error:
            if error.name != f"fastdist.{path}" or path not in of_pytorch:
                raise
    assert len(found) > 75, "the list of public modules is cut"
    return found

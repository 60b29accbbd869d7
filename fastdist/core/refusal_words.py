"""Reasons that many error messages of refused names share."""

from __future__ import annotations

NO_GRAPHS = "programs are not captured as graphs here: call the function or module itself"
NO_COLLECTIVES = (
    "fastdist does not have it: there are process groups with the collectives of "
    "distributed.distributed_c10d, DeviceMesh, and nn.parallel.DistributedDataParallel; between "
    "workers of distributed.rpc, distributed.autograd differentiates calls"
)
NO_HUB = (
    "fastdist fetches no repositories, whose code would run here: clone it yourself, import the "
    "model, and pass the loaded weights to load_state_dict"
)

"""The table of module aliases. module_aliases.py loads it when all other look-ups have failed."""

from __future__ import annotations

from typing import Final

# Modules that have two names in PyTorch, and modules whose contents fastdist has elsewhere.
ALIASES: Final = {
    **dict.fromkeys(
        (f"backends.{name}" for name in ("cusparselt", "kleidiai", "miopen", "nnpack", "xnnpack")),
        "backends.absent",
    ),
    "cpu.amp.autocast_mode": "cpu.amp",
    "cpu.amp.grad_scaler": "cpu.amp",
    "cuda.amp.autocast_mode": "cuda.amp",
    "cuda.amp.common": "cuda.amp",
    "cuda.amp.grad_scaler": "cuda.amp",
    "_functorch.apis": "func",
    "_functorch.eager_transforms": "func",
    "_functorch.vmap": "func",
    "_C._distributed_c10d": "distributed.distributed_c10d",
    "utils.data.datapipes.iter": "data.ready_pipes",
    **dict.fromkeys(
        (
            f"utils.data.datapipes.iter.{name}"
            for name in ("callable", "combinatorics", "combining", "grouping", "selecting", "utils")
        ),
        "data.ready_pipes",
    ),
    "nn.intrinsic": "ao.nn.intrinsic",
    "nn.qat": "ao.nn.qat",
    "nn.quantized": "ao.nn.quantized",
    **{
        f"distributed.{name}": f"distributed.{real}"
        for name, real in {
            "_composable.fsdp": "fsdp",
            "_shard.api": "_shard",
            "_shard.sharded_tensor.api": "_shard.sharded_tensor",
            "_tensor": "tensor",
            "_tensor.experimental": "tensor.experimental",
            "_tensor.placement_types": "tensor.placement_types",
            "elastic.agent.server.api": "elastic.agent.server",
            "elastic.multiprocessing.api": "elastic.multiprocessing",
            "fsdp.fully_sharded_data_parallel": "fsdp",
            "launcher.api": "launcher",
            "pipelining.schedules": "pipelining",
            "pipelining.stage": "pipelining",
            "tensor._api": "tensor",
            "tensor.device_mesh": "device_mesh",
            "tensor.parallel.style": "tensor.parallel",
        }.items()
    },
}

"""PyTorch's modules that fastdist lacks, with the reason or what to use instead.

The table is read after an import has failed. Names are relative to `fastdist.`; several names may
share a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REASONS: Final = {
    "accelerator.graphs": "cuda.CUDAGraph and cuda.graph are here",
    "accelerator.memory": "cuda has memory_allocated(), empty_cache() and their kin",
    "autograd.profiler_legacy": "it was PyTorch's profiler before autograd.profiler, which is here",
    "backends.mha backends.python_native": "it switches PyTorch's own kernels",
    "nn.quantizable": ("quantized tensors are not supported: compute in float16 or float32"),
    "compiler.config": "torch.compile returns its argument unchanged: there is nothing to set",
    "cuda.gds": "files are read through the host's memory: load(..., map_location='cuda')",
    "cuda.green_contexts cuda.tunable": (
        "a GPU's kernels are launched as they are: no part of a device is reserved or tuned"
    ),
    "cuda.jiterator": "a kernel for a GPU is CuPy's RawKernel, which takes a tensor by "
    "__cuda_array_interface__",
    "cuda.nccl": "there are no collectives: distributed.autograd sends gradients between workers",
    "cuda.sparse": "its tensors are made by sparse_coo_tensor(..., device='cuda')",
    "distributed.logging_handlers": (
        "workers log to the logger `fastdist.distributed`, each call and pass at DEBUG"
    ),
    "distributed.config": (
        "rpc.TensorPipeRpcBackendOptions has the options, rpc.constants their defaults"
    ),
    "jit.frontend": "programs are not compiled: jit.script returns its argument unchanged",
    "monitor": "rpc.get_metrics() and distributed.profiler show what workers do",
    "mps.event mps.profiler xpu.graphs xpu.memory xpu.random xpu.streams mtia.memory "
    "mtia.mtia_graph": ("NVIDIA's GPUs are the only ones: cuda"),
    "multiprocessing.reductions": (
        "tensors pickle without it; share_memory_() lets processes share one"
    ),
    "nn.common_types": "its names are PyTorch's annotations: an int, or a tuple of ints",
    "nn.modules.linear_cross_entropy_options": "nn.functional.cross_entropy takes a linear layer's "
    "result",
    "package": "programs are not packed with their code: save() and load() have a model's weights",
    "signal.windows.windows": "its names are in signal.windows",
    "sparse.semi_structured": "sparse_coo is the only sparse layout: to_sparse() makes it",
    "utils.backcompat utils.backend_registration utils.cpp_backtrace": (
        "it configures PyTorch's C++ library, which fastdist does not have"
    ),
    "utils.collect_env": "`fastdist info` shows what a machine has",
    "utils.data.graph": "utils.data has datasets and their loader, without pipes",
    "utils.throughput_benchmark": "utils.benchmark.Timer measures",
}
SAID: Final[Mapping[str, str]] = {
    f"fastdist.{name}": why for names, why in _REASONS.items() for name in names.split()
}

"""PyTorch's modules that are not here: why, or what does their work.

Read when somebody has asked in vain. Names stand as below `fastdist.`, several to a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REASONS: Final = {
    "accelerator.graphs": "cuda.CUDAGraph and cuda.graph are here",
    "accelerator.memory": "cuda has memory_allocated(), empty_cache() and their kin",
    "autograd.profiler_legacy": "it was PyTorch's profiler before autograd.profiler, which is here",
    "backends.cusparselt backends.kleidiai backends.miopen backends.nnpack": "a library that "
    "nothing here calls: `fastdist info` says what computes",
    "backends.mha backends.python_native": "it switches kernels of PyTorch's own",
    "backends.opt_einsum": "einsum takes its operands in from left to right",
    "backends.quantized nn.intrinsic nn.qat nn.quantizable nn.quantized": "quantized tensors are "
    "not there: compute in float16 or float32",
    "classes library": "nothing is registered for a "
    "dispatcher here: autograd.Function adds an op with a gradient of one's own",
    "compiler.config": "torch.compile returns what it is given: there is nothing to set",
    "cpu.amp.autocast_mode cpu.amp.grad_scaler": "its names stand in cpu.amp itself",
    "cuda.amp.autocast_mode cuda.amp.common cuda.amp.grad_scaler": "its names stand in cuda.amp "
    "itself",
    "cuda.gds": "files are read through the host's memory: load(..., map_location='cuda')",
    "cuda.green_contexts cuda.tunable": "a GPU's kernels are launched as they are: nothing of a "
    "device is set aside or tuned",
    "cuda.jiterator": "a kernel for a GPU is CuPy's RawKernel, which takes a tensor by "
    "__cuda_array_interface__",
    "cuda.nccl": "there are no collectives here: gradients cross workers by distributed.autograd",
    "cuda.sparse": "its tensors are made by sparse_coo_tensor(..., device='cuda')",
    "distributed.c10d_logger distributed.logging_handlers": "workers tell the logger "
    "`fastdist.distributed` what they do, at DEBUG each call and pass",
    "distributed.config distributed.constants": "rpc.TensorPipeRpcBackendOptions has what can be "
    "chosen, rpc.constants its defaults",
    "distributed.distributed_c10d distributed.utils": "there are no process groups and "
    "collectives here yet: workers meet by rpc.init_rpc, and gradients cross them by "
    "distributed.autograd",
    "functional": "its names stand in fastdist itself, and those of networks in nn.functional",
    "jit.frontend": "programs are not compiled here: jit.script returns what it is given",
    "masked": "masked tensors are not there: where() and masked_fill() compute with a mask",
    "monitor": "rpc.get_metrics() and distributed.profiler tell what workers do",
    "mps.event mps.profiler xpu.graphs xpu.memory xpu.random xpu.streams mtia": "of GPUs there are "
    "NVIDIA's alone: cuda",
    "multiprocessing.reductions": "tensors pickle by themselves; share_memory_() lets processes "
    "share one",
    "nn.common_types": "its names are of PyTorch's annotations: an int, or a tuple of ints",
    "nn.grad": "autograd.grad gives the gradients of a convolution",
    "nn.modules.linear_cross_entropy_options": "nn.functional.cross_entropy takes a linear layer's "
    "result",
    "package": "programs are not packed with their code: save() and load() have a model's weights",
    "quasirandom": "scipy.stats.qmc.Sobol draws such numbers",
    "signal.windows.windows": "its names stand in signal.windows itself",
    "sparse.semi_structured": "of sparse layouts there is sparse_coo alone: to_sparse() makes it",
    "utils.backcompat utils.backend_registration utils.cpp_backtrace utils.deterministic": "it "
    "sets PyTorch's compiled half, which is not here",
    "utils.collect_env": "`fastdist info` says what a machine has",
    "utils.data.datapipes utils.data.graph utils.data.graph_settings": "utils.data has datasets "
    "and their loader, without pipes",
    "utils.throughput_benchmark": "utils.benchmark.Timer measures",
    "utils.weak": "Python's weakref holds tensors, and id() tells them apart",
}
SAID: Final[Mapping[str, str]] = {
    f"fastdist.{name}": why for names, why in _REASONS.items() for name in names.split()
}

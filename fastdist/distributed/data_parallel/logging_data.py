"""Statistics of the reductions of a DistributedDataParallel, under PyTorch's names."""

from __future__ import annotations

import os
from typing import Any, Final

_DTYPES: Final = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
_ENVIRONMENT: Final = (
    "MASTER_ADDR", "MASTER_PORT", "TORCH_DISTRIBUTED_DEBUG", "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT",
)  # fmt: skip


def logging_data(model: Any) -> dict[str, Any]:
    """Return settings, sizes in bytes, times in nanoseconds, and environment variables.

    A variable that is not set is "N/A".

    "iteration" is the 0-based index of the last iteration whose times were recorded.
    """
    reducer, group = model.reducer, model.process_group
    sizes = ", ".join(str(bucket.nbytes) for bucket in reducer.buckets)
    hook, device = reducer.hook, model.output_device
    dtypes = dict.fromkeys(one.dtype.name for one in reducer.parameters)
    data: dict[str, Any] = {
        "world_size": group.size(),
        "rank": group.rank(),
        "module_name": type(model.module).__name__,
        "backend_name": group.name(),
        "device_ids": ", ".join(map(str, model.device_ids or ())),
        "output_device": -1 if device is None else getattr(device, "index", device),
        "dtypes": ", ".join(_DTYPES.get(name, name) for name in dtypes),
        "broadcast_buffers": int(model.broadcast_buffers),
        "bucket_cap_bytes": model.bucket_bytes_cap,
        "bucket_sizes": sizes,
        "find_unused_parameters": int(model.find_unused_parameters),
        "gradient_as_bucket_view": int(model.gradient_as_bucket_view),
        "static_graph": int(model.static_graph),
        "iteration": reducer.times.last_kept,
        "num_parameter_tensors": len(reducer.parameters),
        "total_parameter_size_bytes": sum(one.nbytes for one in reducer.parameters),
        "num_buckets": len(reducer.buckets),
        "has_rebuilt_buckets": int(reducer.has_rebuilt),
        "has_error": int(bool(reducer.error)),
        "error": reducer.error,
        **{name.lower(): os.environ.get(name, "N/A") for name in _ENVIRONMENT},
    }
    if group.name() in ("gloo", "zmq"):
        # distributed/links uses two threads.
        data["gloo_num_threads"] = 2
    if hook is not None:
        data["comm_hook"] = getattr(hook[1], "__qualname__", repr(hook[1]))
    if reducer.has_rebuilt:
        data["rebuilt_bucket_sizes"] = sizes
        data["rebuilt_per_bucket_param_indices"] = ", ".join(
            " ".join(map(str, bucket.indices)) for bucket in reducer.buckets
        )
    return {**data, **reducer.times.means()}

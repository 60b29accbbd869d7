"""Statistics of GPU memory: how much is in use, the peak, and how much the pool caches."""

from __future__ import annotations

import threading
from typing import Any, Final

from ..core.folded_frames import fold_public
from ..core.missing import explain_missing
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of

_KINDS: Final = (
    "active", "active_bytes", "allocated_bytes", "allocation", "inactive_split",
    "inactive_split_bytes", "requested_bytes", "reserved_bytes", "segment",
)  # fmt: skip
_COUNTS: Final = (
    "max_split_size", "num_alloc_retries", "num_device_alloc", "num_device_free", "num_ooms",
    "num_sync_all_streams",
)  # fmt: skip
# The largest pool size seen, by device; updated at each query and before the pool shrinks.
_most_reserved: dict[int, int] = {}
_most_reserved_lock = threading.Lock()


def _backend() -> Any:
    return backend_of("cuda")


def memory_allocated(device: Any = None) -> int:
    """Return the bytes of a GPU in the pool's blocks that arrays use; 0 without a GPU."""
    return 0 if not device_count() else _usage(device).bytes


def max_memory_allocated(device: Any = None) -> int:
    """Return the peak of `memory_allocated` since the last reset; 0 without a GPU."""
    return 0 if not device_count() else _usage(device).most_bytes


def memory_reserved(device: Any = None) -> int:
    """Return the bytes of a GPU that the pool holds, in use or cached; 0 without a GPU."""
    if not device_count():
        return 0
    index = index_of(device)
    found: int = _backend().reserved_bytes(index)
    with _most_reserved_lock:
        _most_reserved[index] = max(found, _most_reserved.get(index, 0))
    return found


def max_memory_reserved(device: Any = None) -> int:
    """Return the largest pool size in bytes that a query of this module or an `empty_cache` saw; 0
    without a GPU.
    """
    memory_reserved(device)
    return _most_reserved.get(index_of(device), 0)


def _usage(device: Any) -> Any:
    index, usages = index_of(device), _backend().allocator.usages
    _backend().properties(index)  # raises an error if there is no such GPU
    return usages[index]


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return counts under PyTorch's names, such as {"allocated_bytes.all.peak": 1024}; empty
    without a GPU.

    Note    the numbers of small and large pools and of segments are 0: CuPy has one pool for all
            sizes, and does not count segments
    """
    if not device_count():
        return {}
    usage = _usage(device)
    reserved, most_reserved = memory_reserved(device), max_memory_reserved(device)
    of_bytes = usage.bytes, usage.most_bytes, usage.all_bytes
    of_arrays = usage.count, usage.most_count, usage.all_count
    known = {
        "active": of_arrays,
        "active_bytes": of_bytes,
        "allocated_bytes": of_bytes,
        "allocation": of_arrays,
        "requested_bytes": of_bytes,
        "reserved_bytes": (reserved, most_reserved, most_reserved),
    }
    stats = dict.fromkeys(_COUNTS, 0)
    for kind in _KINDS:
        for pool in ("all", "large_pool", "small_pool"):
            now, most, ever = known.get(kind, (0, 0, 0)) if pool == "all" else (0, 0, 0)
            named = {"current": now, "peak": most, "allocated": ever, "freed": ever - now}
            stats |= {f"{kind}.{pool}.{name}": number for name, number in named.items()}
    for kind in ("oversize_allocations", "oversize_segments"):
        stats |= {f"{kind}.{name}": 0 for name in ("current", "peak", "allocated", "freed")}
    stats["num_ooms"] = usage.num_ooms
    return dict(sorted(stats.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return the values of `memory_stats` as nested dicts, one level per dotted part of a name."""
    nested: dict[str, Any] = {}
    for name, number in memory_stats(device).items():
        *above, last = name.split(".")
        place = nested
        for part in above:
            place = place.setdefault(part, {})
        place[last] = number
    return nested


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return memory_stats as a readable table, in MiB."""
    if not device_count():
        return "there is no GPU here, as nvidia-smi shows too, so no GPU memory is in use"
    index, stats = index_of(device), memory_stats(device)
    free, total = mem_get_info(device)
    rows = [
        ("allocated", stats["allocated_bytes.all.current"], stats["allocated_bytes.all.peak"]),
        ("reserved", stats["reserved_bytes.all.current"], stats["reserved_bytes.all.peak"]),
    ]
    lines = [f"memory of cuda:{index}, in MiB", f"{'':12}{'now':>12}{'at most':>12}"]
    lines += [f"{name:12}{now / 2**20:12.1f}{most / 2**20:12.1f}" for name, now, most in rows]
    if not abbreviated:
        lines.append(f"{'arrays':12}{stats['allocation.all.current']:12}")
        lines.append(f"{'free':12}{free / 2**20:12.1f}  of {total / 2**20:.1f}, all processes")
    return "\n".join(lines)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free bytes and the total bytes of a GPU, as the driver reports them.

    Raises  DeviceError without that GPU
    """
    found: tuple[int, int] = _backend().memory_info(index_of(device))
    return found


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the peak values to the current values; do nothing without a GPU."""
    if device_count():
        _usage(device).forget_most()
        with _most_reserved_lock:
            _most_reserved.pop(index_of(device), None)


def empty_cache() -> None:
    """Return cached memory to the GPUs, so that other processes can use it; do nothing without a
    GPU.

    Example:
        >>> torch.cuda.empty_cache()
    """
    if device_count():
        for index in range(device_count()):
            memory_reserved(index)
        _backend().free_reserved()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit this process to a fraction of a GPU's memory; 1.0 is all of it.

    Raises  ValueError for a fraction below 0 or above 1; DeviceError without that GPU
    """
    if not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
        raise ValueError(
            f"Invalid fraction value: {short_repr(fraction)}. Allowed range: 0~1: a share of "
            "the GPU's memory"
        )
    _backend().limit_memory(index_of(device), float(fraction))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the fraction of a GPU's memory that this process may use: 1.0 is all of it.

    Raises  DeviceError without that GPU
    """
    _usage(device)
    return float(_backend().fractions.get(index_of(device), 1.0))


def get_allocator_backend() -> str:
    """Return "cupy": GPU memory comes from CuPy's memory pool."""
    return "cupy"


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Restart the totals of allocated and freed memory at 0; do nothing without a GPU."""
    if device_count():
        _usage(device).forget_all()


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


fold_public(__name__)
explain_missing(__name__)

"""Sections of `gpu_day` with two processes: passes over a GPU and back, and NCCL."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from bench.gpus.day_report import Report
from bench.kept_port import KeptPort

# Name -> (how many numbers a pass transfers, how many passes are timed).
SIZES: Final = {"4 KB": (1 << 10, 300), "1 MB": (1 << 18, 100), "64 MB": (1 << 24, 8)}
TINY: Final = {"4 KB": (1 << 10, 3)}
_WARM_UPS: Final = 3
_THREAD: Final = "fastdist-cpu-continuations"
_PATIENCE_S: Final = 60.0
ELEMENTS: Final = {"1 KB": 1 << 8, "1 MB": 1 << 18, "256 MB": 1 << 26}
TINY_ELEMENTS: Final = {"1 KB": 1 << 8}
_CALLS: Final = 20


# ---- Jobs of two processes


def job(
    work: Callable[..., Any], *given: Any, until_s: float, size: int = 2
) -> list[tuple[bool, Any]]:
    """Run work(rank, *given) in forked processes with the environment of a job.

    Return for each rank whether it completed, with its result or its traceback.

    Note    this process must not have used CUDA, which does not survive a fork
    """
    forking = multiprocessing.get_context("fork")
    port = KeptPort()
    try:
        found: list[tuple[bool, Any]] = []
        ends = [forking.Pipe(duplex=False) for _ in range(size)]
        members = [
            forking.Process(target=_member, args=(rank, size, port.number, ends[rank][1], work,
                                                  given), daemon=True)
            for rank in range(size)
        ]  # fmt: skip
        for member in members:
            member.start()
        for _, theirs in ends:
            theirs.close()
        for ours, _ in ends:
            left_s = max(until_s - time.monotonic(), 0.1)
            try:
                found.append(
                    ours.recv() if ours.poll(left_s) else (False, "it did not end in time")
                )
            except EOFError:
                found.append((False, "its process ended early"))
        for member in members:
            member.join(5)
            if member.is_alive():
                member.kill()
                member.join(5)
        return found
    finally:
        port.close()


def _member(
    rank: int, size: int, port: int, end: Any, work: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))  # fmt: skip
    try:
        end.send((True, work(rank, *given)))
    except BaseException:
        end.send((False, traceback.format_exc()))
    end.close()


def _results(report: Report, what: str, came: list[tuple[bool, Any]]) -> list[Any] | None:
    """Return the results of the processes; if one failed, report that and return None."""
    for rank, (ended, value) in enumerate(came):
        if not ended:
            report.check(what, passed=False, found=f"rank {rank}: {value}")
            return None
    return [value for _, value in came]


# ---- Passes CPU -> GPU -> CPU


def continuations(report: Report, *, is_real: bool, until_s: float) -> None:
    """Measure passes from one process's CPU over another process's GPU, and back."""
    sizes = SIZES if is_real else TINY
    found: dict[str, dict[str, Any]] = {}
    for device in ("cuda:0", "cpu"):
        came = job(_pass_member, device, sizes, until_s=until_s)
        values = _results(report, f"passes over {device}", came)
        if values is None:
            return
        found[device] = values[0]
    over_gpu, over_cpu = found["cuda:0"], found["cpu"]
    for name in sizes:
        one, base = over_gpu[name], over_cpu[name]
        report.check(f"gradients of {name}", one["is_right"] and base["is_right"])
        report.figure(f"a pass of {name}, CPU -> GPU -> CPU", one["pass_us"], "us")
        report.figure(f"a pass of {name}, CPU alone", base["pass_us"], "us")
        report.figure(f"passes of {name} a second", 1e6 / one["pass_us"], "1/s")
        report.figure(f"from the GPU's Node to the CPU's, {name}, median", one["latency_us"], "us")
        report.figure(f"from the GPU's Node to the CPU's, {name}, worst", one["worst_us"], "us")
    threads = over_gpu["threads"]
    report.check("one global CPU thread", threads.count(_THREAD) == 1, _THREAD)
    on_device, on_cpu = over_gpu["hooks"]
    report.check("GPU Nodes run on the GPU's thread", on_device == "fastdist-engine-cuda:0",
                 on_device)  # fmt: skip
    report.check("CPU Nodes behind them run on the pool", on_cpu.startswith("fastdist-rpc-pool"),
                 on_cpu)  # fmt: skip


def _pass_member(rank: int, device: str, sizes: dict[str, tuple[int, int]]) -> Any:
    from fastdist.distributed import rpc

    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=_PATIENCE_S, init_timeout=_PATIENCE_S)
    rpc.init_rpc(f"w{rank}", rpc_backend_options=options)
    try:
        return None if rank else {name: _time_passes(device, *size) for name, size in
                                  sizes.items()} | rpc.rpc_sync("w1", _noted_threads)  # fmt: skip
    finally:
        rpc.shutdown()


def _time_passes(device: str, elements: int, passes: int) -> dict[str, Any]:
    import fastdist
    from fastdist.distributed import autograd, rpc

    x = fastdist.ones(elements, requires_grad=True)

    def once() -> Any:
        with autograd.context() as context:
            loss = rpc.rpc_sync("w1", _through_device, (x, device)).sum()
            autograd.backward(context, [loss])
            return autograd.get_gradients(context)[x]

    for _ in range(_WARM_UPS):
        gradient = once()
    rpc.rpc_sync("w1", _forget_noted)
    start = time.perf_counter()
    for _ in range(passes):
        gradient = once()
    seconds = (time.perf_counter() - start) / passes
    latencies = rpc.rpc_sync("w1", _noted_latencies)
    return {
        "pass_us": seconds * 1e6,
        "is_right": bool((gradient == 24).all()),
        "latency_us": statistics.median(latencies) * 1e6,
        "worst_us": max(latencies) * 1e6,
    }


# In the process with the GPU, for each pass: the thread and time at which the hook of the tensor on
# the GPU ran, and then the hook of the tensor on the CPU.
_on_device: list[tuple[str, float]] = []
_on_cpu: list[tuple[str, float]] = []


def _through_device(x: Any, device: str) -> Any:
    """Return x * 24, computed partly on a device."""
    on_cpu = x * 2
    on_device = on_cpu.to(device) * 3
    back = on_device.to("cpu") * 4
    on_device.register_hook(lambda _: _note(_on_device))
    on_cpu.register_hook(lambda _: _note(_on_cpu))
    return back


def _note(places: list[tuple[str, float]]) -> None:
    places.append((threading.current_thread().name, time.perf_counter()))


def _forget_noted() -> None:
    _on_device.clear()
    _on_cpu.clear()


def _noted_latencies() -> list[float]:
    return [after[1] - before[1] for before, after in zip(_on_device, _on_cpu, strict=True)]


def _noted_threads() -> dict[str, Any]:
    names = [thread.name for thread in threading.enumerate()]
    return {"threads": names, "hooks": (_on_device[-1][0], _on_cpu[-1][0])}


# ---- NCCL


def nccl(report: Report, *, is_real: bool, until_s: float) -> None:
    """Check and time collectives of one GPU, of two ranks on one GPU, and of several GPUs."""
    # The jobs run first, because CUDA does not survive the fork of their processes.
    came = job(_same_gpu_member, until_s=until_s)
    values = _results(report, "two ranks on one GPU", came)
    reason = came[0][1] if values is None else values[0]["missing"]
    if values is not None and reason:
        report.leave_out("NCCL", reason)
        return
    gpus = 1
    if values is not None:
        gpus = values[0]["gpus"]
        texts = [one["refusal"] for one in values]
        report.check("two ranks on one GPU are refused", all("Duplicate GPU detected" in text
                     for text in texts), texts[0])  # fmt: skip
    if gpus < 2:
        report.leave_out("NCCL between GPUs", "there is one GPU")
    elif not is_real:
        report.leave_out("NCCL between GPUs", "the stand-in of NCCL is of one process")
    else:
        _between_gpus(report, gpus, until_s)
    elements = ELEMENTS if is_real else TINY_ELEMENTS
    alone = _results(report, "one GPU alone", job(_alone_member, elements, until_s=until_s, size=1))
    if alone is not None:
        _tell(report, "world_size 1", alone[0])


def _between_gpus(report: Report, gpus: int, until_s: float) -> None:
    size = min(gpus, 8)
    came = job(_gpu_member, ELEMENTS, until_s=until_s, size=size)
    values = _results(report, f"{size} GPUs", came)
    if values is not None:
        for rank, one in enumerate(values):
            wrong = [name for name, is_right in one["checks"].items() if not is_right]
            report.check(f"{size} GPUs, rank {rank}", not wrong, "; ".join(wrong))
        _tell(report, f"{size} GPUs", values[0])


def _tell(report: Report, title: str, found: dict[str, Any]) -> None:
    for name, is_right in found["checks"].items():
        report.check(f"{title}: {name}", is_right)
    for name, microseconds in found["us"].items():
        report.figure(f"{title}: {name}", microseconds, "us")


def _same_gpu_member(rank: int) -> dict[str, Any]:
    import fastdist
    from fastdist import distributed as dist
    from fastdist.core.errors import CollectiveError
    from fastdist.devices.cuda.nccl import why_missing

    if missing := why_missing():
        return {"missing": missing}
    fastdist.cuda.set_device(0)
    dist.init_process_group("cpu:gloo,cuda:nccl", timeout=timedelta(seconds=20))
    try:
        dist.all_reduce(fastdist.ones(1, device="cuda:0"))
        refusal = "it was not refused"
    except CollectiveError as error:
        refusal = str(error)
    try:
        # The first rank that is refused waits here for the other one.
        dist.all_reduce(fastdist.ones(1))
    finally:
        dist.destroy_process_group()
    return {"missing": "", "gpus": fastdist.cuda.device_count(), "refusal": refusal}


def _alone_member(rank: int, elements: dict[str, int]) -> dict[str, Any]:
    return _gpu_member(rank, elements)


def _gpu_member(rank: int, elements: dict[str, int]) -> dict[str, Any]:
    """Return whether collectives on this rank's GPU are correct, and their times."""
    import fastdist
    from fastdist import distributed as dist

    size = int(os.environ["WORLD_SIZE"])
    fastdist.cuda.set_device(rank)
    dist.init_process_group("nccl", timeout=timedelta(seconds=30))
    try:
        return {"checks": dict(_values(fastdist, dist, rank, size)),
                "us": _times(fastdist, dist, elements)}  # fmt: skip
    finally:
        dist.destroy_process_group()


def _values(fastdist: Any, dist: Any, rank: int, size: int) -> list[tuple[str, bool]]:
    whole = size * (size + 1) / 2
    found: list[tuple[str, bool]] = []
    for name in ("float32", "float16", "bfloat16", "float64", "int64", "uint8"):
        x = fastdist.full((4,), rank + 1, dtype=getattr(fastdist, name), device="cuda")
        dist.all_reduce(x)
        found.append((f"all_reduce of {name}", bool((x == whole).all())))
    for op, wanted in (("MAX", size), ("MIN", 1), ("AVG", whole / size)):
        x = fastdist.full((4,), float(rank + 1), device="cuda")
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        found.append((f"all_reduce by {op}", bool((x == wanted).all())))
    mine = fastdist.full((3,), float(rank), device="cuda")
    gathered = fastdist.empty(3 * size, device="cuda")
    dist.all_gather_into_tensor(gathered, mine)
    wanted = fastdist.arange(size, device="cuda").repeat_interleave(3).float()
    found.append(("all_gather_into_tensor", bool((gathered == wanted).all())))
    part = fastdist.empty(3, device="cuda")
    dist.reduce_scatter_tensor(part, gathered)
    found.append(("reduce_scatter_tensor", bool((part == rank * size).all())))
    turned = fastdist.empty(3 * size, device="cuda")
    dist.all_to_all_single(turned, mine.repeat(size))
    found.append(("all_to_all_single", bool((turned == wanted).all())))
    dist.broadcast(mine, src=size - 1)
    found.append(("broadcast", bool((mine == size - 1).all())))
    dist.barrier()
    graph = fastdist.cuda.CUDAGraph()
    x = fastdist.full((4,), 1.0, device="cuda")
    with fastdist.cuda.graph(graph):
        y = x * 2
        dist.all_reduce(y)
    x.fill_(3)
    graph.replay()
    found.append(("all_reduce in a graph", bool((y == 6 * size).all())))
    return found


def _times(fastdist: Any, dist: Any, elements: dict[str, int]) -> dict[str, float]:
    found = {}
    for name, count in elements.items():
        x = fastdist.zeros(count, device="cuda")
        for _ in range(_WARM_UPS):
            dist.all_reduce(x)
        fastdist.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(_CALLS):
            dist.all_reduce(x)
        queued = time.perf_counter()
        fastdist.cuda.synchronize()
        ended = time.perf_counter()
        found[f"all_reduce of {name}, until queued"] = (queued - start) / _CALLS * 1e6
        found[f"all_reduce of {name}"] = (ended - start) / _CALLS * 1e6
    return found

"""Measurements of each worker of the digits job: time by kind of work, memory, traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from fastdist import Tensor, nn
from fastdist.distributed import rpc
from fastdist.examples.stopwatch import Range, Stopwatch


class Report(NamedTuple):
    """The measurements that one worker reports at the end; sizes in bytes, times in seconds."""

    worker: str
    totals: dict[str, float]
    ranges: list[Range]
    calls: int
    answered: int
    sent_bytes: int
    received_bytes: int
    resident_bytes: int
    grown_bytes: int | None  # growth of the memory; None if the run was too short


_stopwatch: Stopwatch | None = None
_resident: list[int] = []


def stopwatch() -> Stopwatch:
    """Return the only stopwatch of this worker."""
    global _stopwatch
    if _stopwatch is None:
        _stopwatch = Stopwatch(rpc.get_worker_info().name)
    return _stopwatch


def watch_part(part: rpc.RRef[Any]) -> None:
    """Measure the layers of a part that is on this worker."""
    watch_module(part.local_value().layers)


def watch_module(module: nn.Module) -> None:
    """Measure the forward and backward passes of a module with hooks."""
    watch = stopwatch()
    # The start of the latest forward pass, and the time up to which backward passes are counted.
    began_s = counted_s = 0.0

    def forward_begins(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal began_s
        began_s = watch.now()
        for x in inputs:
            if x.requires_grad:
                x.register_hook(backward_goes_on)

    def forward_ends(module: nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> None:
        if out.requires_grad:  # otherwise this is a prediction, which is not counted
            watch.add("forward", began_s, watch.now())
            out.register_hook(backward_begins)

    def backward_begins(g: Tensor) -> None:
        nonlocal counted_s
        counted_s = watch.now()

    def backward_goes_on(g: Tensor) -> None:
        nonlocal counted_s
        now = watch.now()
        watch.add("backward", counted_s, now)
        counted_s = now

    module.register_forward_pre_hook(forward_begins)
    module.register_forward_hook(forward_ends)
    for parameter in module.parameters():
        parameter.register_hook(backward_goes_on)


def watch_optimizer(local: rpc.RRef[Any]) -> None:
    """Measure the steps of the optimiser that DistributedOptimizer made on this worker."""
    watch = stopwatch()
    began_s = 0.0

    def begins(*of_the_hook: object) -> None:
        nonlocal began_s
        began_s = watch.now()

    def ends(*of_the_hook: object) -> None:
        watch.add("optimiser", began_s, watch.now())

    optimizer = local.local_value().optimizer
    optimizer.register_step_pre_hook(begins)
    optimizer.register_step_post_hook(ends)


def remember_memory() -> None:
    """Record how much memory this process uses; report() returns the growth from the first record
    to the last.
    """
    _resident.append(resident_bytes())


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 if the system does not report it. Pages of
    files are not counted, because workers share the pages of library files.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    parts = dict(line.split(":") for line in lines if line.startswith(("RssAnon", "RssShmem")))
    return sum(int(text.split()[0]) * 1024 for text in parts.values())


def report() -> Report:
    """Return this worker's measurements."""
    watch = stopwatch()
    agent: Any = rpc._get_current_rpc_agent()
    made, answered = agent.counts.network_data().values(), agent.counts.served_data()
    return Report(
        worker=rpc.get_worker_info().name,
        totals=watch.totals(),
        ranges=watch.ranges(),
        calls=sum(peer.num_calls for peer in made),
        answered=answered.num_calls,
        sent_bytes=answered.total_sent_bytes + sum(peer.total_sent_bytes for peer in made),
        received_bytes=answered.total_recv_bytes + sum(peer.total_recv_bytes for peer in made),
        resident_bytes=resident_bytes(),
        grown_bytes=_resident[-1] - _resident[0] if len(_resident) > 1 else None,
    )

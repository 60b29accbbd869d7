"""Some layers of the digits' model, as they live on one worker; reached through an RRef."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastdist
import fastdist.distributed.autograd as dist_autograd
from fastdist import Tensor, nn, optim
from fastdist.distributed import rpc
from fastdist.examples.digits_summary import Report
from fastdist.examples.stopwatch import Stopwatch

Layers = Sequence[tuple[Tensor, Tensor]]

_stopwatch: Stopwatch | None = None


def stopwatch() -> Stopwatch:
    """Return this worker's one stopwatch."""
    global _stopwatch
    if _stopwatch is None:
        _stopwatch = Stopwatch(rpc.get_worker_info().name)
    return _stopwatch


def report() -> Report:
    """Describe this worker's share of the work."""
    watch = stopwatch()
    agent: Any = rpc._get_current_rpc_agent()
    counts = agent.counts
    made, answered = counts.network_data().values(), counts.served_data()
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


_resident: list[int] = []


def remember_memory() -> None:
    """Let report say how much this process had grown between the first and the last such call."""
    _resident.append(resident_bytes())


def resident_bytes() -> int:
    """Return how much memory this process holds, 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def build_model(layers: Layers, *, ends_in_relu: bool) -> nn.Sequential:
    """Make linear layers from these weights and biases, with ReLU between them."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        linear.weight = nn.Parameter(weight)
        linear.bias = nn.Parameter(bias)
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*(modules if ends_in_relu else modules[:-1]))


class Part:
    """Layers on the worker that made them.

    Thread  any; the trainer sends one batch at a time
    """

    def __init__(self, layers: Layers, ends_in_relu: bool) -> None:
        self._model = build_model(layers, ends_in_relu=ends_in_relu)
        self._backward_start_s = 0.0
        for parameter in next(self._model.children()).parameters():
            # The first layer's gradients are the last to be computed here.
            parameter.register_hook(self._backward_ended)

    def forward(self, x: Tensor) -> Tensor:
        """Return what these layers make of a batch."""
        with stopwatch().measure("forward"):
            out: Tensor = self._model(x)
        if out.requires_grad:
            out.register_hook(self._backward_began)
        return out

    def predict(self, x: Tensor) -> Tensor:
        """Return the same without recording it: no_grad of a caller does not reach its callees."""
        with fastdist.no_grad():
            out: Tensor = self._model(x)
            return out

    def parameter_rrefs(self) -> list[rpc.RRef[Tensor]]:
        """Return references to the parameters, which stay here."""
        return [rpc.RRef(parameter) for parameter in self._model.parameters()]

    def gradients(self, context_id: int) -> list[Tensor]:
        """Return the gradients that a distributed pass left for the parameters here."""
        gradients = dist_autograd.get_gradients(context_id)
        return [gradients[parameter] for parameter in self._model.parameters()]

    def _backward_began(self, g: Tensor) -> None:
        self._backward_start_s = stopwatch().now()

    def _backward_ended(self, g: Tensor) -> None:
        watch = stopwatch()
        now = watch.now()
        # Called for the weight and for the bias: the second time adds what came in between.
        watch.add("backward", self._backward_start_s, now)
        self._backward_start_s = now


class TimedSGD(optim.SGD):
    """SGD that tells the worker's stopwatch; DistributedOptimizer makes one on each worker."""

    def step(self, closure: Any = None) -> Any:
        """Do one step where the parameters live."""
        with stopwatch().measure("optimiser"):
            return super().step(closure)


def as_tensors(layers: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
    """Return NumPy layers as tensors of their own memory."""
    return [(fastdist.tensor(weight), fastdist.tensor(bias)) for weight, bias in layers]

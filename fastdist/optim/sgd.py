"""SGD."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from ..graph.modes import no_grad
from ..language.program import Program, read_program
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .fused import direction
from .optimizer import Group, Optimizer
from .options import checked, require_for_fused, require_one_way
from .updates import run_program

# Defaults of options that older state dicts lack.
_GAINED = {
    "nesterov": False,
    "maximize": False,
    "foreach": None,
    "differentiable": False,
    "fused": False,
}


@functools.cache
def _plain(maximize: bool, decays: bool) -> Program:
    d = direction(maximize=maximize, weight_decay=decays)
    return read_program(f"p = p - lr * {d}", ("p", "g"), ("lr", "decay"))


@functools.cache
def _begin(maximize: bool, decays: bool) -> Program:
    d = direction(maximize=maximize, weight_decay=decays)
    return read_program(f"v = {d}", ("v", "g", "p"), ("decay",))


@functools.cache
def _descend(is_first: bool, nesterov: bool, maximize: bool, decays: bool) -> Program:
    d = direction(maximize=maximize, weight_decay=decays)
    remembered = "" if is_first else f"v = momentum * v + new * {d}"
    return read_program(
        f"{remembered}\np = p - lr * {f'({d} + momentum * v)' if nesterov else 'v'}",
        ("p", "g", "v"),
        ("lr", "momentum", "new", "decay"),
    )


class SGD(Optimizer):
    """Stochastic gradient descent: v = momentum * v + (1 - dampening) * g; p = p - lr * v.

    Raises  ValueError for options out of range
    Source  Sutskever et al. 2013, "On the importance of initialization and momentum in deep
            learning", for nesterov
    Note    weight_decay adds weight_decay * p to the gradient; maximize reverses the step. foreach
            and fused do not change the result: a group is updated in one launch in any case

    Args:
        params: Tensors, or for each group a dict with `params` and options.
        lr: The step size, not negative: a number or a 0-d tensor.
        momentum: The decay of the running sum of gradients.
        dampening: The fraction of each gradient that is left out of the sum.
        weight_decay: The factor with which parameters are added to their gradients.
        nesterov: Whether to use Nesterov momentum.
        maximize: Whether to maximize instead of minimize.
        foreach: Ignored: there is one implementation.
        differentiable: Whether the step is recorded for autograd.
        fused: Ignored.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> optimizer = optim.SGD([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        options = checked(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, options)
        require_one_way(fused=fused, foreach=foreach, differentiable=differentiable)
        self._step_supports_amp_scaling = bool(fused)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in _GAINED.items():
                group.setdefault(name, value)

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        if group["fused"]:
            for parameter in parameters:
                require_for_fused(parameter)
        lr, decay, momentum = group["lr"], group["weight_decay"], group["momentum"]
        how = bool(group["maximize"]), bool(decay)
        columns = [parameters, gradients]
        if not momentum:
            run_program(_plain(*how), columns, [[lr, decay]] * len(parameters), self.found_inf)
            return
        buffers: list[Any] = [
            self.state[parameter].get("momentum_buffer") for parameter in parameters
        ]
        is_first = any(buffer is None for buffer in buffers)
        if is_first and len(parameters) > 1:
            # The parameters are updated one by one: if the group lists a parameter twice, the
            # parameter has a buffer at its second update.
            for parameter, gradient in zip(parameters, gradients, strict=True):
                self.update_all(group, [parameter], [gradient])
            return
        if is_first:
            buffers = [zeros_like(parameters[0])]
            self.state[parameters[0]]["momentum_buffer"] = buffers[0]
            # In the first step, the buffer is the whole gradient, without dampening. Setting the
            # buffer is then not recorded for autograd.
            with no_grad():
                run_program(
                    _begin(*how), [buffers, gradients, parameters], [[decay]], self.found_inf
                )
        numbers = [lr, momentum, 1.0 - group["dampening"], decay]
        program = _descend(is_first, bool(group["nesterov"]), *how)
        run_program(program, [*columns, buffers], [numbers] * len(parameters), self.found_inf)

    def update_sparse(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update the rows for which the sparse gradient has entries. With momentum, also update the
        rows for which earlier gradients had entries.
        """
        momentum, g = group["momentum"], gradient
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients: leave fused out")
        if group["weight_decay"]:
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead. weight_decay "
                "would touch all rows: leave it at 0 for sparse gradients"
            )
        if group["maximize"]:
            g = -g
        if momentum:
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = g.clone()
            else:
                buffer = buffer * momentum + g * (1.0 - group["dampening"])
            # The buffer is coalesced at each step; otherwise its number of entries would grow with
            # each step.
            state["momentum_buffer"] = buffer = buffer.detach().coalesce()
            g = g + buffer * momentum if group["nesterov"] else buffer
        parameter.add_(g, alpha=-float(group["lr"]))

"""Adam."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from ..core.missing import show_public
from ..language.program import Program, read_program
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .moments import FOLLOWED, follow, followed, how_followed
from .optimizer import Group
from .options import checked, require_one_way
from .updates import run_program


@functools.cache
def _program(amsgrad: bool, decays: bool, apart: bool, maximize: bool) -> Program:
    moments, _ = follow(decays, apart, maximize)
    ceiling = "top = maximum(top, v)" if amsgrad else ""
    return read_program(
        f"""
        {moments}
        {ceiling}
        p = p - rate * (m / (sqrt({"top" if amsgrad else "v"}) / root + eps))
        """,
        ("p", "g", "m", "v", "top") if amsgrad else ("p", "g", "m", "v"),
        (*FOLLOWED, "rate", "root", "eps"),
    )


class Adam(CountedOptimizer):
    """Steps by the running mean of gradients divided by the root of their running mean square.

    Raises  ValueError for options out of range
    Source  Kingma and Ba 2014, "Adam: A Method for Stochastic Optimization"; Reddi et al. 2018,
            "On the Convergence of Adam and Beyond", for amsgrad
    Note    weight_decay adds weight_decay * p to the gradient, unless decoupled_weight_decay is set

    Args:
        params: Tensors, or for each group a dict with `params` and options.
        lr: The step size, not negative: a number or a 0-d tensor.
        betas: The decay rates of the running mean and of the running mean square.
        eps: A number that is added to the root, to avoid division by 0.
        weight_decay: The factor with which parameters are added to their gradients.
        amsgrad: Whether to replace the running mean square by its maximum over all steps so far.
        foreach: Ignored: there is one implementation.
        maximize: Whether to maximize instead of minimize.
        capturable: Whether steps are counted on the device.
        differentiable: Whether the step is recorded for autograd.
        fused: Whether steps are counted on the device, not if None; the update is the same.
        decoupled_weight_decay: Whether weight decay shrinks parameters directly, as in AdamW.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> optimizer = optim.Adam([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([0.9000, 0.9000])
    """

    _gained: ClassVar[dict[str, Any]] = {
        "amsgrad": False,
        **CountedOptimizer._gained,
        "decoupled_weight_decay": False,
        "fused": None,
    }
    _differentiates_steps = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        in_list = bool(foreach) and not capturable
        _require_numbers(lr, betas, in_list=in_list)
        options = checked(
            lr=lr,
            betas=tuple(beta.squeeze() if isinstance(beta, Tensor) else beta for beta in betas),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        super().__init__(params, options)
        require_one_way(fused=fused, foreach=foreach, differentiable=differentiable)
        self._step_supports_amp_scaling = bool(fused)

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        states = [self.state[p] or self._begin(group, p) for p in parameters]
        names = ["exp_avg", "exp_avg_sq"]
        if group["amsgrad"]:
            names.append("max_exp_avg_sq")
        (beta1, beta2), lr, eps = group["betas"], group["lr"], group["eps"]
        known = followed(group)
        counts = self.count_all(group, parameters, states)
        numbers = {
            step: [*known, lr / (1.0 - beta1**step), (1.0 - beta2**step) ** 0.5, eps]
            for step in dict.fromkeys(counts)
        }
        columns = [parameters, gradients, *([state[name] for state in states] for name in names)]
        program = _program(bool(group["amsgrad"]), *how_followed(group))
        run_program(program, columns, [numbers[step] for step in counts], self.found_inf)

    def _begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        state["step"] = self.number(group, parameter)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(parameter)
        return state

    def update_sparse(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Raise RuntimeError: each step changes the running means of all rows, not only of some."""
        raise RuntimeError(
            "Adam does not support sparse gradients, please consider SparseAdam instead"
        )


def _require_numbers(lr: Any, betas: tuple[Any, Any], *, in_list: bool) -> None:
    """Raise ValueError if lr or betas are Tensors in a case where PyTorch requires numbers."""
    why = "is not supported for capturable=False and foreach=True; leave foreach out"
    if isinstance(lr, Tensor) and in_list:
        raise ValueError(f"lr as a Tensor {why}")
    if len({isinstance(beta, Tensor) for beta in betas}) > 1:
        raise ValueError("betas must be either both floats or both Tensors")
    for number, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            if in_list:
                raise ValueError(f"betas[{number}] as a Tensor {why}")
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{number}] must be 1-element")


show_public(__name__)

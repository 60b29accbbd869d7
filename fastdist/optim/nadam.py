"""NAdam."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from ..core.missing import show_public
from ..language.program import Program, read_program
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .device_numbers import is_column, put, taken
from .moments import FOLLOWED, follow, followed, how_followed
from .optimizer import Group
from .options import checked
from .updates import run_program


@functools.cache
def _program(decays: bool, apart: bool, maximize: bool) -> Program:
    moments, d = follow(decays, apart, maximize)
    return read_program(
        f"""
        {moments}
        p = s = sqrt(v / left) + eps; p - now * ({d} / s) - then * (m / s)
        """,
        ("p", "g", "m", "v"),
        (*FOLLOWED, "left", "eps", "now", "then"),
    )


class NAdam(CountedOptimizer):
    """Adam with Nesterov momentum: it uses the mean of gradients that the next step would have.

    Raises  ValueError for options out of range
    Source  Dozat 2016, "Incorporating Nesterov Momentum into Adam"; Loshchilov and Hutter 2017,
            "Decoupled Weight Decay Regularization", for decoupled_weight_decay
    """

    _gained: ClassVar[dict[str, Any]] = {
        **CountedOptimizer._gained,
        "decoupled_weight_decay": False,
    }
    _numbers: ClassVar[tuple[str, ...]] = ("step", "mu_product")
    _on_devices = "params, mu_products and state_steps must be on supported devices"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = checked(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        super().__init__(params, options)

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        states = [self.state[p] or self._begin(group, p) for p in parameters]
        counts = self.count_all(group, parameters, states)
        known = followed(group)
        products = [state["mu_product"] for state in states]
        if is_column(counts):
            numbers = [[*known, *self._ahead(group, counts[0], products)]] * len(counts)
        else:
            numbers = [
                [*known, *self._ahead(group, step, product)]
                for step, product in zip(counts, products, strict=True)
            ]
        means, squares = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        run_program(
            _program(*how_followed(group)), [parameters, gradients, means, squares], numbers
        )

    def _begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        state["step"] = self.number(group, parameter)
        state["mu_product"] = self.number(group, parameter, 1.0)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)
        return state

    def _ahead(self, group: Group, step: Any, kept: Tensor | list[Tensor]) -> list[Any]:
        """Return the program's last four numbers for one step, and update the product of momenta.

        `kept` is the product for one parameter, or a list of the products for several parameters.
        """
        (beta1, beta2), lr = group["betas"], group["lr"]
        mu, ahead = (
            beta1 * (1.0 - 0.5 * 0.96 ** (at * group["momentum_decay"])) for at in (step, step + 1)
        )
        product: Any
        if isinstance(kept, list):
            product = taken(kept) * mu
            put(product, kept)
        else:
            product = kept.mul_(mu)
            as_tensor = group["differentiable"] or group["capturable"]
            product = product.clone() if as_tensor else product.item()
        now = lr * (1.0 - mu) / (1.0 - product)
        then = lr * ahead / (1.0 - product * ahead)
        return [1.0 - beta2**step, group["eps"], now, then]


show_public(__name__)

"""AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.missing import show_public
from ..tensor.tensor import Tensor
from .adam import Adam


class AdamW(Adam):
    """Adam in which weight_decay shrinks parameters directly, and is not added to gradients.

    Raises  ValueError for options out of range
    Source  Loshchilov and Hutter 2017, "Decoupled Weight Decay Regularization"

    Args:
        params: Tensors, or for each group a dict with `params` and options.
        lr: The step size, not negative: a number or a 0-d tensor.
        betas: The decay rates of the running mean and of the running mean square.
        eps: A number that is added to the root, to avoid division by 0.
        weight_decay: Each step multiplies parameters by 1 - lr * weight_decay.
        amsgrad: Whether to replace the running mean square by its maximum over all steps so far.
        maximize: Whether to maximize instead of minimize.
        foreach: Ignored: there is one implementation.
        capturable: Whether steps are counted on the device.
        differentiable: Whether the step is recorded for autograd.
        fused: Whether steps are counted on the device, not if None; the update is the same.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> optimizer = optim.AdamW([weight], lr=0.1, weight_decay=0.0)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


show_public(__name__)

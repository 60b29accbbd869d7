"""Weight norm as a forward pre-hook; parametrizations.weight_norm is the newer form."""

from __future__ import annotations

from typing import Any, TypeVar

from ...core.caller_warning import warn_caller
from ...core.folded_frames import fold_public
from ...core.missing import show_public
from ...tensor.parameter import Parameter
from ...tensor.tensor import Tensor
from ..module import Module
from ..parameter import is_lazy
from .parametrizations import norm_except_dim

M = TypeVar("M", bound=Module)


class WeightNorm:
    """The hook that computes weight from weight_g and weight_v before each call."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return weight_v, scaled so that its norms are weight_g."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        found: Tensor = v * (g / norm_except_dim(v, dim=self.dim))
        return found

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a parameter by its norm and its direction; return the hook.

        Raises  RuntimeError if the parameter has such a hook already; ValueError if the parameter
                is not yet initialized
        """
        warn_caller(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
        )
        if any(isinstance(h, WeightNorm) and h.name == name for h in hooks_of(module)):
            raise RuntimeError(
                f"Cannot register two weight_norm hooks on the same parameter {name}"
            )
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        lengths = norm_except_dim(weight.detach(), dim=hook.dim)
        module.register_parameter(f"{name}_g", Parameter(lengths))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again, with its current value."""
        weight = self.compute_weight(module)
        for name in (self.name, f"{self.name}_g", f"{self.name}_v"):
            delattr(module, name)
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def hooks_of(module: Module) -> list[Any]:
    """Return the functions of module's forward pre-hooks."""
    return [entry.call for entry in module._forward_pre_hooks.values()]


def take_hook(module: Module, kind: type[Any], name: str) -> Any:
    """Remove the hook of class `kind` for the tensor `name`; return the hook, or None."""
    for number, entry in list(module._forward_pre_hooks.items()):
        if isinstance(entry.call, kind) and entry.call.name == name:
            del module._forward_pre_hooks[number]
            return entry.call
    return None


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Compute a weight from its norm (weight_g) and direction (weight_v) before each call.

    Source  Salimans and Kingma 2016, "Weight Normalization"
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Remove weight_norm: the weight becomes an ordinary parameter again.

    Raises  ValueError if module has no weight norm on a weight of that name
    """
    hook = take_hook(module, WeightNorm, name)
    if hook is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    hook.remove(module)
    return module


fold_public(__name__)
show_public(__name__)
